
using namespace System.Management.Automation
using namespace System.Management.Automation.Language

Register-ArgumentCompleter -Native -CommandName 'hsched' -ScriptBlock {
    param($wordToComplete, $commandAst, $cursorPosition)

    $commandElements = $commandAst.CommandElements
    $command = @(
        'hsched'
        for ($i = 1; $i -lt $commandElements.Count; $i++) {
            $element = $commandElements[$i]
            if ($element -isnot [StringConstantExpressionAst] -or
                $element.StringConstantType -ne [StringConstantType]::BareWord -or
                $element.Value.StartsWith('-') -or
                $element.Value -eq $wordToComplete) {
                break
        }
        $element.Value
    }) -join ';'

    $completions = @(switch ($command) {
        'hsched' {
            [CompletionResult]::new('--set', '--set', [CompletionResultType]::ParameterName, 'Override a setting for this command; may be given several times (`hsched config show` lists them)')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('-V', '-V ', [CompletionResultType]::ParameterName, 'Print version')
            [CompletionResult]::new('--version', '--version', [CompletionResultType]::ParameterName, 'Print version')
            [CompletionResult]::new('inventory', 'inventory', [CompletionResultType]::ParameterValue, 'Show the cluster''s nodes, partitions and GPUs')
            [CompletionResult]::new('plan', 'plan', [CompletionResultType]::ParameterValue, 'Plan which GPUs each job gets and how its batch is split over them')
            [CompletionResult]::new('when', 'when', [CompletionResultType]::ParameterValue, 'Show which request of each job would finish first, including its wait in the queue')
            [CompletionResult]::new('run', 'run', [CompletionResultType]::ParameterValue, 'Run jobs on the GPUs of this machine, without Slurm')
            [CompletionResult]::new('submit', 'submit', [CompletionResultType]::ParameterValue, 'Write a job script for each placed job and submit it with sbatch')
            [CompletionResult]::new('add', 'add', [CompletionResultType]::ParameterValue, 'Add jobs for `hsched watch` to place; submits nothing')
            [CompletionResult]::new('watch', 'watch', [CompletionResultType]::ParameterValue, 'Follow the jobs: count epochs, measure speeds, submit waiting jobs to free GPUs, retry failed jobs')
            [CompletionResult]::new('probe', 'probe', [CompletionResultType]::ParameterValue, 'Measure the speed of jobs on GPU types without a known speed, with short Slurm jobs')
            [CompletionResult]::new('status', 'status', [CompletionResultType]::ParameterValue, 'Show all jobs: state, GPUs, epochs, predicted and observed epoch times, expected end')
            [CompletionResult]::new('logs', 'logs', [CompletionResultType]::ParameterValue, 'Print the output of a job')
            [CompletionResult]::new('cancel', 'cancel', [CompletionResultType]::ParameterValue, 'Cancel jobs: waiting, pending or running')
            [CompletionResult]::new('report', 'report', [CompletionResultType]::ParameterValue, 'Report a finished epoch from inside a job, for training programs in any language')
            [CompletionResult]::new('curve', 'curve', [CompletionResultType]::ParameterValue, 'Predict a metric at the last epoch from a training log, and decide whether to stop')
            [CompletionResult]::new('gpus', 'gpus', [CompletionResultType]::ParameterValue, 'Show known GPU models: memory, speed, MIG slices, names')
            [CompletionResult]::new('cache', 'cache', [CompletionResultType]::ParameterValue, 'Show, edit and share the measured speeds')
            [CompletionResult]::new('config', 'config', [CompletionResultType]::ParameterValue, 'Show the settings')
            [CompletionResult]::new('doctor', 'doctor', [CompletionResultType]::ParameterValue, 'Check Slurm, its GPUs, the settings and the state directory, and say what to do')
            [CompletionResult]::new('init', 'init', [CompletionResultType]::ParameterValue, 'Write a starter job file and settings file')
            [CompletionResult]::new('import', 'import', [CompletionResultType]::ParameterValue, 'Make a job file from a batch script')
            [CompletionResult]::new('generate', 'generate', [CompletionResultType]::ParameterValue, 'Generate a random cluster and random jobs, to try or benchmark hsched')
            [CompletionResult]::new('demo', 'demo', [CompletionResultType]::ParameterValue, 'Show what hsched does on a simulated cluster: plan, submit, watch, measure and re-plan')
            [CompletionResult]::new('simulate', 'simulate', [CompletionResultType]::ParameterValue, 'Simulate policies on a trace of jobs, such as those of your last month')
            [CompletionResult]::new('trace', 'trace', [CompletionResultType]::ParameterValue, 'Convert job records of a cluster, or a published trace, into a trace for `hsched simulate`')
            [CompletionResult]::new('train-policy', 'train-policy', [CompletionResultType]::ParameterValue, 'Train a neural network that chooses which job gets GPUs next, for the policy mlf-rl')
            [CompletionResult]::new('check-ddp', 'check-ddp', [CompletionResultType]::ParameterValue, 'Check that your version of torch computes correct gradients with unequal local batches')
            [CompletionResult]::new('consolidate', 'consolidate', [CompletionResultType]::ParameterValue, 'Merge the weights of several copies of a model')
            break
        }
        'hsched;inventory' {
            [CompletionResult]::new('--cluster', '--cluster', [CompletionResultType]::ParameterName, 'Read a cluster file instead of asking Slurm')
            [CompletionResult]::new('--from', '--from', [CompletionResultType]::ParameterName, 'Read saved Slurm output instead of asking Slurm; - reads standard input')
            [CompletionResult]::new('--columns', '--columns', [CompletionResultType]::ParameterName, 'Format of the table given to --from, if it has no header line')
            [CompletionResult]::new('--format', '--format', [CompletionResultType]::ParameterName, 'Output format')
            [CompletionResult]::new('--set', '--set', [CompletionResultType]::ParameterName, 'Override a setting for this command; may be given several times (`hsched config show` lists them)')
            [CompletionResult]::new('--local', '--local', [CompletionResultType]::ParameterName, 'Show the GPUs of this machine instead of asking Slurm: types, memory, links, processes')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'hsched;plan' {
            [CompletionResult]::new('--format', '--format', [CompletionResultType]::ParameterName, 'Output format')
            [CompletionResult]::new('-o', '-o', [CompletionResultType]::ParameterName, 'Also write the plan to this file, as JSON')
            [CompletionResult]::new('--output', '--output', [CompletionResultType]::ParameterName, 'Also write the plan to this file, as JSON')
            [CompletionResult]::new('--compare', '--compare', [CompletionResultType]::ParameterName, 'Compare policies instead of printing a plan: `all`, or names separated by commas')
            [CompletionResult]::new('--explain', '--explain', [CompletionResultType]::ParameterName, 'Explain the plan instead of printing it: the prices of the GPUs and a summary of all jobs, or one job in full. With --queue, show each job''s requests that no other request beats in both time and cost')
            [CompletionResult]::new('--snapshot', '--snapshot', [CompletionResultType]::ParameterName, 'Read a saved snapshot of the queue instead of asking Slurm. `hsched when` compares clusters if it gets one snapshot of each')
            [CompletionResult]::new('--cost-weight', '--cost-weight', [CompletionResultType]::ParameterName, 'Value of one RGU-hour or billing-hour, in hours of completion time. With 0, hsched chooses the request that finishes first, or a cheaper one that finishes within 5 % or 10 min of it')
            [CompletionResult]::new('--futures', '--futures', [CompletionResultType]::ParameterName, 'Number of simulated futures of the queue, if the time of --budget allows [default: 60; 24 when jobs are planned together]')
            [CompletionResult]::new('--cluster', '--cluster', [CompletionResultType]::ParameterName, 'Read a cluster file instead of asking Slurm')
            [CompletionResult]::new('--from', '--from', [CompletionResultType]::ParameterName, 'Read saved Slurm output instead of asking Slurm; - reads standard input')
            [CompletionResult]::new('--columns', '--columns', [CompletionResultType]::ParameterName, 'Format of the table given to --from, if it has no header line')
            [CompletionResult]::new('--policy', '--policy', [CompletionResultType]::ParameterName, 'Policy that places the jobs. All policies except optimal use every GPU that the jobs can use')
            [CompletionResult]::new('--objective', '--objective', [CompletionResultType]::ParameterName, 'Objective to minimise')
            [CompletionResult]::new('--seed', '--seed', [CompletionResultType]::ParameterName, 'Seed of all random choices')
            [CompletionResult]::new('--alpha', '--alpha', [CompletionResultType]::ParameterName, 'jps: start of the sampled range of categories, as a fraction of all categories')
            [CompletionResult]::new('--beta', '--beta', [CompletionResultType]::ParameterName, 'jps: weight of speed relative to fairness')
            [CompletionResult]::new('--samples', '--samples', [CompletionResultType]::ParameterName, 'jps: number of categories to sample')
            [CompletionResult]::new('--capacity', '--capacity', [CompletionResultType]::ParameterName, 'Which GPUs the plan may use [default: limits if the setting `capacity` is set, else free]')
            [CompletionResult]::new('--estimate', '--estimate', [CompletionResultType]::ParameterName, 'Estimate speeds that are neither measured nor in the job file, so that jobs can use these GPU types. `learnt` estimates from other models that were measured on both types; `all` also uses the job files and the table of GPUs [default: setting `estimate`, off]. The job key `estimate` takes precedence')
            [CompletionResult]::new('--budget', '--budget', [CompletionResultType]::ParameterName, 'Stop the search after this time and use the best plan found so far, such as 10s or 2m [default: 1s for optimal and for lower bounds, unlimited for other policies]')
            [CompletionResult]::new('--set', '--set', [CompletionResultType]::ParameterName, 'Override a setting for this command; may be given several times (`hsched config show` lists them)')
            [CompletionResult]::new('--queue', '--queue', [CompletionResultType]::ParameterName, 'Plan through Slurm''s queue: choose a request for each job to minimise the mean completion time. Start estimates are those of `hsched when`, but include the chosen requests of the other jobs')
            [CompletionResult]::new('--use-all', '--use-all', [CompletionResultType]::ParameterName, 'optimal: use every GPU that the jobs can use')
            [CompletionResult]::new('--pin', '--pin', [CompletionResultType]::ParameterName, 'Request the nodes of the plan by name, instead of any nodes with the same GPUs')
            [CompletionResult]::new('--no-cache', '--no-cache', [CompletionResultType]::ParameterName, 'Use only the speeds of the job file, not measured speeds')
            [CompletionResult]::new('--no-bound', '--no-bound', [CompletionResultType]::ParameterName, 'Do not compute a lower bound for plans of policies other than optimal')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'hsched;when' {
            [CompletionResult]::new('--format', '--format', [CompletionResultType]::ParameterName, 'Output format')
            [CompletionResult]::new('--snapshot', '--snapshot', [CompletionResultType]::ParameterName, 'Read a saved snapshot of the queue instead of asking Slurm. `hsched when` compares clusters if it gets one snapshot of each')
            [CompletionResult]::new('--cost-weight', '--cost-weight', [CompletionResultType]::ParameterName, 'Value of one RGU-hour or billing-hour, in hours of completion time. With 0, hsched chooses the request that finishes first, or a cheaper one that finishes within 5 % or 10 min of it')
            [CompletionResult]::new('--futures', '--futures', [CompletionResultType]::ParameterName, 'Number of simulated futures of the queue, if the time of --budget allows [default: 60; 24 when jobs are planned together]')
            [CompletionResult]::new('--save', '--save', [CompletionResultType]::ParameterName, 'Also save the snapshot of the queue to this file, as JSON')
            [CompletionResult]::new('--seed', '--seed', [CompletionResultType]::ParameterName, 'Seed of the random numbers')
            [CompletionResult]::new('--budget', '--budget', [CompletionResultType]::ParameterName, 'Time limit for the simulations, such as 10s or 2m')
            [CompletionResult]::new('--estimate', '--estimate', [CompletionResultType]::ParameterName, 'Estimate speeds that are neither measured nor in the job file, so that jobs can use these GPU types. `learnt` estimates from other models that were measured on both types; `all` also uses the job files and the table of GPUs [default: setting `estimate`, off]. The job key `estimate` takes precedence')
            [CompletionResult]::new('--set', '--set', [CompletionResultType]::ParameterName, 'Override a setting for this command; may be given several times (`hsched config show` lists them)')
            [CompletionResult]::new('--score', '--score', [CompletionResultType]::ParameterName, 'Show how accurate the start estimates of the last 90 days were. Makes no calls to Slurm: hsched watch records the starts')
            [CompletionResult]::new('--no-cache', '--no-cache', [CompletionResultType]::ParameterName, 'Use only the speeds of the job file, not measured speeds')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'hsched;run' {
            [CompletionResult]::new('--devices', '--devices', [CompletionResultType]::ParameterName, 'Use these simulated devices, such as cpu:4 or v100:2,t4:2, instead of the GPUs of the machine. Programs then see no GPU')
            [CompletionResult]::new('--policy', '--policy', [CompletionResultType]::ParameterName, 'Policy that assigns devices to jobs over time, and stops jobs to make room for other jobs')
            [CompletionResult]::new('--objective', '--objective', [CompletionResultType]::ParameterName, 'Objective to minimise')
            [CompletionResult]::new('--seed', '--seed', [CompletionResultType]::ParameterName, 'Seed of all random choices')
            [CompletionResult]::new('--alpha', '--alpha', [CompletionResultType]::ParameterName, 'jps: start of the sampled range of categories, as a fraction of all categories')
            [CompletionResult]::new('--beta', '--beta', [CompletionResultType]::ParameterName, 'jps: weight of speed relative to fairness')
            [CompletionResult]::new('--samples', '--samples', [CompletionResultType]::ParameterName, 'jps: number of categories to sample')
            [CompletionResult]::new('--groups', '--groups', [CompletionResultType]::ParameterName, 'hlas: groups in which GPUs are allocated: individual GPUs (gpus), the GPUs of a node (nodes), or a number of groups of nearly equal size')
            [CompletionResult]::new('--thresholds', '--thresholds', [CompletionResultType]::ParameterName, 'hlas: thresholds of average service per group, in ascending order, such as 5m,10m,20m; a job that exceeds one moves down a level [default: 5 rounds of the median job, then doubled four times]')
            [CompletionResult]::new('--promote', '--promote', [CompletionResultType]::ParameterName, 'hlas: move a job to the first level when its wait since its last round exceeds this multiple of its service [default: never]')
            [CompletionResult]::new('--sharing', '--sharing', [CompletionResultType]::ParameterName, 'hadar: whether the GPUs of a job get equal shares of the batch (equal, as in the paper) or shares that fit their speeds (balanced)')
            [CompletionResult]::new('--utility', '--utility', [CompletionResultType]::ParameterName, 'hadar: value of completing a job: its steps per second (throughput, as in the paper; favours long jobs), or its shortest possible run time divided by its completion time (normalised)')
            [CompletionResult]::new('--worth', '--worth', [CompletionResultType]::ParameterName, 'hadar: budget of a job: the value of completing it (finish, as in the paper), or the part of that value that one round of waiting costs (delay). `--utility normalised --worth delay` gives the best mean completion times')
            [CompletionResult]::new('--network', '--network', [CompletionResultType]::ParameterName, 'mlf-rl: file of the neural network, as `hsched train-policy` writes it')
            [CompletionResult]::new('--notify', '--notify', [CompletionResultType]::ParameterName, 'Command to call when jobs complete, fail, or cannot start without your help (setting notify). It gets one line per job on standard input')
            [CompletionResult]::new('--estimate', '--estimate', [CompletionResultType]::ParameterName, 'Estimate speeds that are neither measured nor in the job file, so that jobs can use these GPU types. `learnt` estimates from other models that were measured on both types; `all` also uses the job files and the table of GPUs [default: setting `estimate`, off]. The job key `estimate` takes precedence')
            [CompletionResult]::new('--format', '--format', [CompletionResultType]::ParameterName, 'Output format: text, or one JSON object per line with time, job, topic and text')
            [CompletionResult]::new('--budget', '--budget', [CompletionResultType]::ParameterName, 'Stop each search after this time and use the best plan found so far')
            [CompletionResult]::new('--set', '--set', [CompletionResultType]::ParameterName, 'Override a setting for this command; may be given several times (`hsched config show` lists them)')
            [CompletionResult]::new('--restart', '--restart', [CompletionResultType]::ParameterName, 'Start the jobs of JOBS over at the first epoch. Checkpoints are not deleted: remove them, or the training program resumes from them')
            [CompletionResult]::new('--dry-run', '--dry-run', [CompletionResultType]::ParameterName, 'Show what would be started and why, without doing it')
            [CompletionResult]::new('--use-all', '--use-all', [CompletionResultType]::ParameterName, 'optimal: use every GPU that the jobs can use')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'hsched;submit' {
            [CompletionResult]::new('-j', '-j', [CompletionResultType]::ParameterName, 'Submit only this job; may be given several times')
            [CompletionResult]::new('--job', '--job', [CompletionResultType]::ParameterName, 'Submit only this job; may be given several times')
            [CompletionResult]::new('--account', '--account', [CompletionResultType]::ParameterName, 'Slurm account')
            [CompletionResult]::new('--partition', '--partition', [CompletionResultType]::ParameterName, 'Slurm partition')
            [CompletionResult]::new('--qos', '--qos', [CompletionResultType]::ParameterName, 'Slurm quality of service')
            [CompletionResult]::new('--race', '--race', [CompletionResultType]::ParameterName, 'Queue up to N requests of each job. When one starts, hsched cancels the others. N above 1 implies --queue')
            [CompletionResult]::new('--cost-weight', '--cost-weight', [CompletionResultType]::ParameterName, 'Value of one RGU-hour or billing-hour, in hours of completion time. With 0, hsched chooses the request that finishes first, or a cheaper one that finishes within 5 % or 10 min of it')
            [CompletionResult]::new('--futures', '--futures', [CompletionResultType]::ParameterName, 'Number of simulated futures of the queue, if the time of --budget allows [default: 60; 24 when jobs are planned together]')
            [CompletionResult]::new('--run-id', '--run-id', [CompletionResultType]::ParameterName, 'Id of this run [default: the time and a random number]')
            [CompletionResult]::new('--format', '--format', [CompletionResultType]::ParameterName, 'Output format')
            [CompletionResult]::new('--gpus', '--gpus', [CompletionResultType]::ParameterName, 'With --together: the GPUs of each node, such as v100:4 or v100:2,t4:2')
            [CompletionResult]::new('--nodes', '--nodes', [CompletionResultType]::ParameterName, 'With --together: the number of nodes')
            [CompletionResult]::new('--time', '--time', [CompletionResultType]::ParameterName, 'With --together: the time limit of the allocation, such as 12h')
            [CompletionResult]::new('--cluster', '--cluster', [CompletionResultType]::ParameterName, 'Read a cluster file instead of asking Slurm')
            [CompletionResult]::new('--from', '--from', [CompletionResultType]::ParameterName, 'Read saved Slurm output instead of asking Slurm; - reads standard input')
            [CompletionResult]::new('--columns', '--columns', [CompletionResultType]::ParameterName, 'Format of the table given to --from, if it has no header line')
            [CompletionResult]::new('--objective', '--objective', [CompletionResultType]::ParameterName, 'Objective to minimise')
            [CompletionResult]::new('--seed', '--seed', [CompletionResultType]::ParameterName, 'Seed of all random choices')
            [CompletionResult]::new('--alpha', '--alpha', [CompletionResultType]::ParameterName, 'jps: start of the sampled range of categories, as a fraction of all categories')
            [CompletionResult]::new('--beta', '--beta', [CompletionResultType]::ParameterName, 'jps: weight of speed relative to fairness')
            [CompletionResult]::new('--samples', '--samples', [CompletionResultType]::ParameterName, 'jps: number of categories to sample')
            [CompletionResult]::new('--capacity', '--capacity', [CompletionResultType]::ParameterName, 'Which GPUs the plan may use [default: limits if the setting `capacity` is set, else free]')
            [CompletionResult]::new('--estimate', '--estimate', [CompletionResultType]::ParameterName, 'Estimate speeds that are neither measured nor in the job file, so that jobs can use these GPU types. `learnt` estimates from other models that were measured on both types; `all` also uses the job files and the table of GPUs [default: setting `estimate`, off]. The job key `estimate` takes precedence')
            [CompletionResult]::new('--budget', '--budget', [CompletionResultType]::ParameterName, 'Stop the search after this time and use the best plan found so far, such as 10s or 2m [default: 1s for optimal and for lower bounds, unlimited for other policies]')
            [CompletionResult]::new('--policy', '--policy', [CompletionResultType]::ParameterName, 'Policy that places the jobs. All policies except optimal use every GPU that the jobs can use. With --together, the policy of hsched run, which may also be one that reschedules running jobs [default with --together: horizon]')
            [CompletionResult]::new('--set', '--set', [CompletionResultType]::ParameterName, 'Override a setting for this command; may be given several times (`hsched config show` lists them)')
            [CompletionResult]::new('--dry-run', '--dry-run', [CompletionResultType]::ParameterName, 'Print the scripts instead of submitting them. `hsched watch` does not follow a job whose script you submit yourself')
            [CompletionResult]::new('--restart', '--restart', [CompletionResultType]::ParameterName, 'Start over at the first epoch. Checkpoints are not deleted: remove them, or the training program resumes from them')
            [CompletionResult]::new('--queue', '--queue', [CompletionResultType]::ParameterName, 'Submit the requests that `hsched plan --queue` chooses: for each job the GPUs, account, partition and time limit that minimise the mean completion time, including the wait in the queue')
            [CompletionResult]::new('--together', '--together', [CompletionResultType]::ParameterName, 'Submit one Slurm job in which `hsched run` runs all jobs, instead of one Slurm job for each')
            [CompletionResult]::new('--use-all', '--use-all', [CompletionResultType]::ParameterName, 'optimal: use every GPU that the jobs can use')
            [CompletionResult]::new('--pin', '--pin', [CompletionResultType]::ParameterName, 'Request the nodes of the plan by name, instead of any nodes with the same GPUs')
            [CompletionResult]::new('--no-cache', '--no-cache', [CompletionResultType]::ParameterName, 'Use only the speeds of the job file, not measured speeds')
            [CompletionResult]::new('--no-bound', '--no-bound', [CompletionResultType]::ParameterName, 'Do not compute a lower bound for plans of policies other than optimal')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'hsched;add' {
            [CompletionResult]::new('--account', '--account', [CompletionResultType]::ParameterName, 'Slurm account')
            [CompletionResult]::new('--partition', '--partition', [CompletionResultType]::ParameterName, 'Slurm partition')
            [CompletionResult]::new('--qos', '--qos', [CompletionResultType]::ParameterName, 'Slurm quality of service')
            [CompletionResult]::new('--estimate', '--estimate', [CompletionResultType]::ParameterName, 'Estimate speeds that are neither measured nor in the job file, so that jobs can use these GPU types. `learnt` estimates from other models that were measured on both types; `all` also uses the job files and the table of GPUs [default: setting `estimate`, off]. The job key `estimate` takes precedence')
            [CompletionResult]::new('--policy', '--policy', [CompletionResultType]::ParameterName, 'Policy that places the jobs. All policies except optimal use every GPU that the jobs can use')
            [CompletionResult]::new('--objective', '--objective', [CompletionResultType]::ParameterName, 'Objective to minimise')
            [CompletionResult]::new('--seed', '--seed', [CompletionResultType]::ParameterName, 'Seed of all random choices')
            [CompletionResult]::new('--alpha', '--alpha', [CompletionResultType]::ParameterName, 'jps: start of the sampled range of categories, as a fraction of all categories')
            [CompletionResult]::new('--beta', '--beta', [CompletionResultType]::ParameterName, 'jps: weight of speed relative to fairness')
            [CompletionResult]::new('--samples', '--samples', [CompletionResultType]::ParameterName, 'jps: number of categories to sample')
            [CompletionResult]::new('--format', '--format', [CompletionResultType]::ParameterName, 'Output format')
            [CompletionResult]::new('--set', '--set', [CompletionResultType]::ParameterName, 'Override a setting for this command; may be given several times (`hsched config show` lists them)')
            [CompletionResult]::new('--dry-run', '--dry-run', [CompletionResultType]::ParameterName, 'Show what would be added, without adding it')
            [CompletionResult]::new('--restart', '--restart', [CompletionResultType]::ParameterName, 'Start over at the first epoch. Checkpoints are not deleted: remove them, or the training program resumes from them')
            [CompletionResult]::new('--use-all', '--use-all', [CompletionResultType]::ParameterName, 'optimal: use every GPU that the jobs can use')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'hsched;watch' {
            [CompletionResult]::new('--interval', '--interval', [CompletionResultType]::ParameterName, 'Time between two turns, such as 30s or 5m')
            [CompletionResult]::new('--moves', '--moves', [CompletionResultType]::ParameterName, 'Whether to stop running jobs and move them to better GPUs. With never, only waiting jobs get free GPUs')
            [CompletionResult]::new('--race', '--race', [CompletionResultType]::ParameterName, 'race')
            [CompletionResult]::new('--margin', '--margin', [CompletionResultType]::ParameterName, 'auto: move a job only if the time saved exceeds the cost of the restart by this fraction of the cost')
            [CompletionResult]::new('--notify', '--notify', [CompletionResultType]::ParameterName, 'Command to call when jobs complete, fail, or cannot start without your help (setting notify). It gets one line per job on standard input')
            [CompletionResult]::new('--objective', '--objective', [CompletionResultType]::ParameterName, 'Objective to minimise')
            [CompletionResult]::new('--seed', '--seed', [CompletionResultType]::ParameterName, 'Seed of all random choices')
            [CompletionResult]::new('--alpha', '--alpha', [CompletionResultType]::ParameterName, 'jps: start of the sampled range of categories, as a fraction of all categories')
            [CompletionResult]::new('--beta', '--beta', [CompletionResultType]::ParameterName, 'jps: weight of speed relative to fairness')
            [CompletionResult]::new('--samples', '--samples', [CompletionResultType]::ParameterName, 'jps: number of categories to sample')
            [CompletionResult]::new('--groups', '--groups', [CompletionResultType]::ParameterName, 'hlas: groups in which GPUs are allocated: individual GPUs (gpus), the GPUs of a node (nodes), or a number of groups of nearly equal size')
            [CompletionResult]::new('--thresholds', '--thresholds', [CompletionResultType]::ParameterName, 'hlas: thresholds of average service per group, in ascending order, such as 5m,10m,20m; a job that exceeds one moves down a level [default: 5 rounds of the median job, then doubled four times]')
            [CompletionResult]::new('--promote', '--promote', [CompletionResultType]::ParameterName, 'hlas: move a job to the first level when its wait since its last round exceeds this multiple of its service [default: never]')
            [CompletionResult]::new('--sharing', '--sharing', [CompletionResultType]::ParameterName, 'hadar: whether the GPUs of a job get equal shares of the batch (equal, as in the paper) or shares that fit their speeds (balanced)')
            [CompletionResult]::new('--utility', '--utility', [CompletionResultType]::ParameterName, 'hadar: value of completing a job: its steps per second (throughput, as in the paper; favours long jobs), or its shortest possible run time divided by its completion time (normalised)')
            [CompletionResult]::new('--worth', '--worth', [CompletionResultType]::ParameterName, 'hadar: budget of a job: the value of completing it (finish, as in the paper), or the part of that value that one round of waiting costs (delay). `--utility normalised --worth delay` gives the best mean completion times')
            [CompletionResult]::new('--network', '--network', [CompletionResultType]::ParameterName, 'mlf-rl: file of the neural network, as `hsched train-policy` writes it')
            [CompletionResult]::new('--estimate', '--estimate', [CompletionResultType]::ParameterName, 'Estimate speeds that are neither measured nor in the job file, so that jobs can use these GPU types. `learnt` estimates from other models that were measured on both types; `all` also uses the job files and the table of GPUs [default: setting `estimate`, off]. The job key `estimate` takes precedence')
            [CompletionResult]::new('--format', '--format', [CompletionResultType]::ParameterName, 'Output format: text, or one JSON object per line with time, job, topic and text')
            [CompletionResult]::new('--budget', '--budget', [CompletionResultType]::ParameterName, 'Stop each search after this time and use the best plan found so far')
            [CompletionResult]::new('--policy', '--policy', [CompletionResultType]::ParameterName, 'Policy that places the jobs. All policies except optimal use every GPU that the jobs can use')
            [CompletionResult]::new('--set', '--set', [CompletionResultType]::ParameterName, 'Override a setting for this command; may be given several times (`hsched config show` lists them)')
            [CompletionResult]::new('--once', '--once', [CompletionResultType]::ParameterName, 'Run one turn and exit')
            [CompletionResult]::new('--forever', '--forever', [CompletionResultType]::ParameterName, 'Keep running when all jobs have ended, for jobs that are added later')
            [CompletionResult]::new('--dry-run', '--dry-run', [CompletionResultType]::ParameterName, 'Show what would be done and why, without doing it')
            [CompletionResult]::new('--queue', '--queue', [CompletionResultType]::ParameterName, 'Also queue jobs in Slurm that find no free GPUs, or that finish earlier on GPUs that are in use')
            [CompletionResult]::new('--pin', '--pin', [CompletionResultType]::ParameterName, 'Request the nodes of the plan by name, instead of any nodes with the same GPUs')
            [CompletionResult]::new('--use-all', '--use-all', [CompletionResultType]::ParameterName, 'optimal: use every GPU that the jobs can use')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'hsched;probe' {
            [CompletionResult]::new('-j', '-j', [CompletionResultType]::ParameterName, 'Probe only this job; may be given several times')
            [CompletionResult]::new('--job', '--job', [CompletionResultType]::ParameterName, 'Probe only this job; may be given several times')
            [CompletionResult]::new('--time', '--time', [CompletionResultType]::ParameterName, 'Time limit of a probe, such as 5m; at least 1m')
            [CompletionResult]::new('--format', '--format', [CompletionResultType]::ParameterName, 'Output format')
            [CompletionResult]::new('--set', '--set', [CompletionResultType]::ParameterName, 'Override a setting for this command; may be given several times (`hsched config show` lists them)')
            [CompletionResult]::new('--all', '--all', [CompletionResultType]::ParameterName, 'Also probe GPU types whose speed is known only from the job file')
            [CompletionResult]::new('--dry-run', '--dry-run', [CompletionResultType]::ParameterName, 'Show what would be measured, without submitting it')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'hsched;status' {
            [CompletionResult]::new('--format', '--format', [CompletionResultType]::ParameterName, 'Output format')
            [CompletionResult]::new('--set', '--set', [CompletionResultType]::ParameterName, 'Override a setting for this command; may be given several times (`hsched config show` lists them)')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'hsched;logs' {
            [CompletionResult]::new('--tail', '--tail', [CompletionResultType]::ParameterName, 'Print only the last LINES lines; with --follow, start with them')
            [CompletionResult]::new('--run', '--run', [CompletionResultType]::ParameterName, 'Print the output of this run (`hsched status JOB` lists them)')
            [CompletionResult]::new('--attempt', '--attempt', [CompletionResultType]::ParameterName, 'Print the output of this submission, counted from 1')
            [CompletionResult]::new('--set', '--set', [CompletionResultType]::ParameterName, 'Override a setting for this command; may be given several times (`hsched config show` lists them)')
            [CompletionResult]::new('-f', '-f', [CompletionResultType]::ParameterName, 'Keep printing as the output grows, across moves and retries, until the job has ended')
            [CompletionResult]::new('--follow', '--follow', [CompletionResultType]::ParameterName, 'Keep printing as the output grows, across moves and retries, until the job has ended')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'hsched;cancel' {
            [CompletionResult]::new('--format', '--format', [CompletionResultType]::ParameterName, 'Output format')
            [CompletionResult]::new('--set', '--set', [CompletionResultType]::ParameterName, 'Override a setting for this command; may be given several times (`hsched config show` lists them)')
            [CompletionResult]::new('--all', '--all', [CompletionResultType]::ParameterName, 'All jobs that have not ended')
            [CompletionResult]::new('--dry-run', '--dry-run', [CompletionResultType]::ParameterName, 'Show what would be cancelled, without cancelling it')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'hsched;report' {
            [CompletionResult]::new('--epoch', '--epoch', [CompletionResultType]::ParameterName, 'Number of the finished epoch, from 1')
            [CompletionResult]::new('--compute-s', '--compute-s', [CompletionResultType]::ParameterName, 'Seconds that this rank spent computing in the epoch, without waiting for other ranks')
            [CompletionResult]::new('--epoch-s', '--epoch-s', [CompletionResultType]::ParameterName, 'Seconds that the epoch took')
            [CompletionResult]::new('--samples', '--samples', [CompletionResultType]::ParameterName, 'Samples that this rank trained in the epoch [default: its share in the plan]')
            [CompletionResult]::new('--batch', '--batch', [CompletionResultType]::ParameterName, 'Local batch of this rank [default: `HSCHED_LOCAL_BATCH`]')
            [CompletionResult]::new('--metric', '--metric', [CompletionResultType]::ParameterName, 'A metric such as loss=0.7; may be given several times')
            [CompletionResult]::new('--set', '--set', [CompletionResultType]::ParameterName, 'Override a setting for this command; may be given several times (`hsched config show` lists them)')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'hsched;curve' {
            [CompletionResult]::new('--history', '--history', [CompletionResultType]::ParameterName, 'Training log, the same as FILE')
            [CompletionResult]::new('--metric', '--metric', [CompletionResultType]::ParameterName, 'Metric to predict [default: the only one, else the loss]')
            [CompletionResult]::new('--mode', '--mode', [CompletionResultType]::ParameterName, 'Whether a low (min) or a high (max) value is better [default: min for a loss or an error, else max]')
            [CompletionResult]::new('--epochs', '--epochs', [CompletionResultType]::ParameterName, 'Total number of epochs [default: twice the epochs in the log]')
            [CompletionResult]::new('--target', '--target', [CompletionResultType]::ParameterName, 'Target value of the metric')
            [CompletionResult]::new('--rule', '--rule', [CompletionResultType]::ParameterName, 'Early-stopping rule [default: target if --target is given, else best]')
            [CompletionResult]::new('--patience', '--patience', [CompletionResultType]::ParameterName, 'Stop after this many epochs without a better value')
            [CompletionResult]::new('--confidence', '--confidence', [CompletionResultType]::ParameterName, 'Probability that a prediction must reach to stop the training')
            [CompletionResult]::new('--tolerance', '--tolerance', [CompletionResultType]::ParameterName, 'Smallest improvement that counts, in the unit of the metric [default: 0.02 of the range seen]')
            [CompletionResult]::new('--svg', '--svg', [CompletionResultType]::ParameterName, 'Also write a chart to this file, as SVG')
            [CompletionResult]::new('--format', '--format', [CompletionResultType]::ParameterName, 'Output format')
            [CompletionResult]::new('--set', '--set', [CompletionResultType]::ParameterName, 'Override a setting for this command; may be given several times (`hsched config show` lists them)')
            [CompletionResult]::new('--give-up', '--give-up', [CompletionResultType]::ParameterName, 'Also stop when the target is out of reach')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'hsched;gpus' {
            [CompletionResult]::new('--format', '--format', [CompletionResultType]::ParameterName, 'Output format')
            [CompletionResult]::new('--set', '--set', [CompletionResultType]::ParameterName, 'Override a setting for this command; may be given several times (`hsched config show` lists them)')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'hsched;cache' {
            [CompletionResult]::new('--set', '--set', [CompletionResultType]::ParameterName, 'Override a setting for this command; may be given several times (`hsched config show` lists them)')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('show', 'show', [CompletionResultType]::ParameterValue, 'Show the measured speeds with their errors and sources')
            [CompletionResult]::new('set', 'set', [CompletionResultType]::ParameterValue, 'Set the speed of a model on a GPU type, until it is measured')
            [CompletionResult]::new('forget', 'forget', [CompletionResultType]::ParameterValue, 'Delete the speeds of a model, on one GPU type or all')
            [CompletionResult]::new('export', 'export', [CompletionResultType]::ParameterValue, 'Print all measured speeds, for `hsched cache import`')
            [CompletionResult]::new('import', 'import', [CompletionResultType]::ParameterValue, 'Import speeds from `hsched cache export`')
            break
        }
        'hsched;cache;show' {
            [CompletionResult]::new('--format', '--format', [CompletionResultType]::ParameterName, 'Output format')
            [CompletionResult]::new('--set', '--set', [CompletionResultType]::ParameterName, 'Override a setting for this command; may be given several times (`hsched config show` lists them)')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'hsched;cache;set' {
            [CompletionResult]::new('--precision', '--precision', [CompletionResultType]::ParameterName, 'Precision, for jobs that set the key `precision`')
            [CompletionResult]::new('--format', '--format', [CompletionResultType]::ParameterName, 'Output format')
            [CompletionResult]::new('--set', '--set', [CompletionResultType]::ParameterName, 'Override a setting for this command; may be given several times (`hsched config show` lists them)')
            [CompletionResult]::new('--dry-run', '--dry-run', [CompletionResultType]::ParameterName, 'Show what would change, and change nothing')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'hsched;cache;forget' {
            [CompletionResult]::new('--format', '--format', [CompletionResultType]::ParameterName, 'Output format')
            [CompletionResult]::new('--set', '--set', [CompletionResultType]::ParameterName, 'Override a setting for this command; may be given several times (`hsched config show` lists them)')
            [CompletionResult]::new('--dry-run', '--dry-run', [CompletionResultType]::ParameterName, 'Show what would be deleted, and change nothing')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'hsched;cache;export' {
            [CompletionResult]::new('--format', '--format', [CompletionResultType]::ParameterName, 'Output format: JSON is complete, CSV is for spreadsheets')
            [CompletionResult]::new('--set', '--set', [CompletionResultType]::ParameterName, 'Override a setting for this command; may be given several times (`hsched config show` lists them)')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'hsched;cache;import' {
            [CompletionResult]::new('--format', '--format', [CompletionResultType]::ParameterName, 'Output format')
            [CompletionResult]::new('--set', '--set', [CompletionResultType]::ParameterName, 'Override a setting for this command; may be given several times (`hsched config show` lists them)')
            [CompletionResult]::new('--dry-run', '--dry-run', [CompletionResultType]::ParameterName, 'Show what would change, and change nothing')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'hsched;config' {
            [CompletionResult]::new('--set', '--set', [CompletionResultType]::ParameterName, 'Override a setting for this command; may be given several times (`hsched config show` lists them)')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help')
            [CompletionResult]::new('show', 'show', [CompletionResultType]::ParameterValue, 'Show every setting, its value and its source')
            break
        }
        'hsched;config;show' {
            [CompletionResult]::new('--format', '--format', [CompletionResultType]::ParameterName, 'Output format')
            [CompletionResult]::new('--set', '--set', [CompletionResultType]::ParameterName, 'Override a setting for this command; may be given several times (`hsched config show` lists them)')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'hsched;doctor' {
            [CompletionResult]::new('--restore', '--restore', [CompletionResultType]::ParameterName, 'Restore the state from this file: state.json, state.json.old or journal in the state directory, or the path of a copy of one of them')
            [CompletionResult]::new('--bundle', '--bundle', [CompletionResultType]::ParameterName, 'Record the output of every call that hsched makes to read from Slurm, as a compressed archive that you can attach to a bug report')
            [CompletionResult]::new('--format', '--format', [CompletionResultType]::ParameterName, 'Output format')
            [CompletionResult]::new('--set', '--set', [CompletionResultType]::ParameterName, 'Override a setting for this command; may be given several times (`hsched config show` lists them)')
            [CompletionResult]::new('--keep-names', '--keep-names', [CompletionResultType]::ParameterName, 'Keep the real names in the bundle')
            [CompletionResult]::new('--dry-run', '--dry-run', [CompletionResultType]::ParameterName, 'Only show what --restore or --bundle would do')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'hsched;init' {
            [CompletionResult]::new('--cluster', '--cluster', [CompletionResultType]::ParameterName, 'Read a cluster file instead of asking Slurm')
            [CompletionResult]::new('--from', '--from', [CompletionResultType]::ParameterName, 'Read saved Slurm output instead of asking Slurm; - reads standard input')
            [CompletionResult]::new('--columns', '--columns', [CompletionResultType]::ParameterName, 'Format of the table given to --from, if it has no header line')
            [CompletionResult]::new('--set', '--set', [CompletionResultType]::ParameterName, 'Override a setting for this command; may be given several times (`hsched config show` lists them)')
            [CompletionResult]::new('--force', '--force', [CompletionResultType]::ParameterName, 'Overwrite existing files')
            [CompletionResult]::new('--dry-run', '--dry-run', [CompletionResultType]::ParameterName, 'Print the files instead of writing them')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'hsched;import' {
            [CompletionResult]::new('-o', '-o', [CompletionResultType]::ParameterName, 'Write to this file, which must not exist, instead of stdout')
            [CompletionResult]::new('--output', '--output', [CompletionResultType]::ParameterName, 'Write to this file, which must not exist, instead of stdout')
            [CompletionResult]::new('--format', '--format', [CompletionResultType]::ParameterName, 'Output format; JSON has no comments')
            [CompletionResult]::new('--set', '--set', [CompletionResultType]::ParameterName, 'Override a setting for this command; may be given several times (`hsched config show` lists them)')
            [CompletionResult]::new('--dry-run', '--dry-run', [CompletionResultType]::ParameterName, 'Print the job file instead of writing it')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'hsched;generate' {
            [CompletionResult]::new('--gpus', '--gpus', [CompletionResultType]::ParameterName, 'Number of GPUs in the cluster')
            [CompletionResult]::new('--gpus-per-node', '--gpus-per-node', [CompletionResultType]::ParameterName, 'GPUs per node; the last node gets the remainder')
            [CompletionResult]::new('--types', '--types', [CompletionResultType]::ParameterName, 'Number of GPU types, or their names separated by commas. Types not listed above need a speed, as in v100,l40s=1.4')
            [CompletionResult]::new('--jobs', '--jobs', [CompletionResultType]::ParameterName, 'Number of jobs')
            [CompletionResult]::new('--sync', '--sync', [CompletionResultType]::ParameterName, 'When ranks exchange gradients')
            [CompletionResult]::new('--network-gbps', '--network-gbps', [CompletionResultType]::ParameterName, 'Bandwidth between nodes, in Gbit/s')
            [CompletionResult]::new('--intra-node-gbps', '--intra-node-gbps', [CompletionResultType]::ParameterName, 'Bandwidth between the GPUs of a node, in Gbit/s')
            [CompletionResult]::new('--seed', '--seed', [CompletionResultType]::ParameterName, 'Random seed')
            [CompletionResult]::new('--format', '--format', [CompletionResultType]::ParameterName, 'Output format')
            [CompletionResult]::new('--set', '--set', [CompletionResultType]::ParameterName, 'Override a setting for this command; may be given several times (`hsched config show` lists them)')
            [CompletionResult]::new('--mixed', '--mixed', [CompletionResultType]::ParameterName, 'Put two GPU types into each node')
            [CompletionResult]::new('--rich', '--rich', [CompletionResultType]::ParameterName, 'Also generate fixed step costs, limits on GPU counts and types, memory limits, overlap and weights')
            [CompletionResult]::new('--force', '--force', [CompletionResultType]::ParameterName, 'Overwrite existing files')
            [CompletionResult]::new('--dry-run', '--dry-run', [CompletionResultType]::ParameterName, 'Print the files instead of writing them')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('trace', 'trace', [CompletionResultType]::ParameterValue, 'Generate a random trace for `hsched simulate`, with the distributions of published studies')
            break
        }
        'hsched;generate;trace' {
            [CompletionResult]::new('--rules', '--rules', [CompletionResultType]::ParameterName, 'Rules that generate the jobs')
            [CompletionResult]::new('--throughputs', '--throughputs', [CompletionResultType]::ParameterName, 'Table of steps per second from Gavel (its JSON, or CSV), for --rules gavel')
            [CompletionResult]::new('--types', '--types', [CompletionResultType]::ParameterName, 'GPU types for --rules heavy-tails: a number, or names separated by commas. Types without a known speed need one, as in v100,l40s=1.4')
            [CompletionResult]::new('--no-faster-than', '--no-faster-than', [CompletionResultType]::ParameterName, 'Limit all GPU types to the speed of this one, for --rules gavel. Most published results of Gavel use v100 here')
            [CompletionResult]::new('--sync', '--sync', [CompletionResultType]::ParameterName, 'When ranks exchange gradients, for --rules paper')
            [CompletionResult]::new('--jobs', '--jobs', [CompletionResultType]::ParameterName, 'Number of jobs')
            [CompletionResult]::new('--gap', '--gap', [CompletionResultType]::ParameterName, 'Mean time between arrivals')
            [CompletionResult]::new('--recorded', '--recorded', [CompletionResultType]::ParameterName, 'Take arrival times, run times and numbers of GPUs from CSV with `submit_s`, `duration_s` and `num_gpus`, such as the Philly trace')
            [CompletionResult]::new('--load', '--load', [CompletionResultType]::ParameterName, 'Scale the times between arrivals so that the jobs request this fraction of the cluster')
            [CompletionResult]::new('--cluster', '--cluster', [CompletionResultType]::ParameterName, 'Read a cluster file instead of asking Slurm')
            [CompletionResult]::new('--from', '--from', [CompletionResultType]::ParameterName, 'Read saved Slurm output instead of asking Slurm; - reads standard input')
            [CompletionResult]::new('--columns', '--columns', [CompletionResultType]::ParameterName, 'Format of the table given to --from, if it has no header line')
            [CompletionResult]::new('--seed', '--seed', [CompletionResultType]::ParameterName, 'Random seed')
            [CompletionResult]::new('-o', '-o', [CompletionResultType]::ParameterName, 'Write the trace to this file [default: standard output]')
            [CompletionResult]::new('--output', '--output', [CompletionResultType]::ParameterName, 'Write the trace to this file [default: standard output]')
            [CompletionResult]::new('--set', '--set', [CompletionResultType]::ParameterName, 'Override a setting for this command; may be given several times (`hsched config show` lists them)')
            [CompletionResult]::new('--single-gpu', '--single-gpu', [CompletionResultType]::ParameterName, 'Give every job of --rules gavel one GPU')
            [CompletionResult]::new('--mouldable', '--mouldable', [CompletionResultType]::ParameterName, 'Let jobs run on other numbers of GPUs than they request')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'hsched;demo' {
            [CompletionResult]::new('--seed', '--seed', [CompletionResultType]::ParameterName, 'Seed of the small random differences between the compute times of ranks')
            [CompletionResult]::new('--format', '--format', [CompletionResultType]::ParameterName, 'Output format')
            [CompletionResult]::new('--set', '--set', [CompletionResultType]::ParameterName, 'Override a setting for this command; may be given several times (`hsched config show` lists them)')
            [CompletionResult]::new('--fast', '--fast', [CompletionResultType]::ParameterName, 'Do not pause between lines')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'hsched;simulate' {
            [CompletionResult]::new('--trace', '--trace', [CompletionResultType]::ParameterName, 'Trace: a job file (YAML or JSON) or CSV; - reads standard input')
            [CompletionResult]::new('--cluster', '--cluster', [CompletionResultType]::ParameterName, 'Read a cluster file instead of asking Slurm')
            [CompletionResult]::new('--from', '--from', [CompletionResultType]::ParameterName, 'Read saved Slurm output instead of asking Slurm; - reads standard input')
            [CompletionResult]::new('--columns', '--columns', [CompletionResultType]::ParameterName, 'Format of the table given to --from, if it has no header line')
            [CompletionResult]::new('--policy', '--policy', [CompletionResultType]::ParameterName, 'Policies, separated by commas. The policies of `hsched plan` place all jobs again whenever a job arrives or ends')
            [CompletionResult]::new('--objective', '--objective', [CompletionResultType]::ParameterName, 'Objective to minimise, for the policies of `hsched plan` and for hadare. Other policies have an objective of their own. hadare: with mean-jct, jobs that can complete within the round are the first to get nodes; with makespan, the job that ends last gets the next node')
            [CompletionResult]::new('--execution', '--execution', [CompletionResultType]::ParameterName, 'Whether each task of a job computes by itself at any time, as in the papers, or all GPUs of a job compute together, as on a cluster')
            [CompletionResult]::new('--assign', '--assign', [CompletionResultType]::ParameterName, 'hare: whether a task goes to the GPU that is free first (available), to the GPU on which it ends first (finish), or also into gaps between earlier tasks (insert)')
            [CompletionResult]::new('--alpha', '--alpha', [CompletionResultType]::ParameterName, 'jps: start of the sampled range of categories, as a fraction of all categories')
            [CompletionResult]::new('--beta', '--beta', [CompletionResultType]::ParameterName, 'jps: weight of speed relative to fairness')
            [CompletionResult]::new('--samples', '--samples', [CompletionResultType]::ParameterName, 'jps: number of categories to sample')
            [CompletionResult]::new('--groups', '--groups', [CompletionResultType]::ParameterName, 'hlas: groups in which GPUs are allocated: individual GPUs (gpus), the GPUs of a node (nodes), or a number of groups of nearly equal size')
            [CompletionResult]::new('--thresholds', '--thresholds', [CompletionResultType]::ParameterName, 'hlas: thresholds of average service per group, in ascending order, such as 5m,10m,20m; a job that exceeds one moves down a level [default: 5 rounds of the median job, then doubled four times]')
            [CompletionResult]::new('--promote', '--promote', [CompletionResultType]::ParameterName, 'hlas: move a job to the first level when its wait since its last round exceeds this multiple of its service [default: never]')
            [CompletionResult]::new('--sharing', '--sharing', [CompletionResultType]::ParameterName, 'hadar: whether the GPUs of a job get equal shares of the batch (equal, as in the paper) or shares that fit their speeds (balanced)')
            [CompletionResult]::new('--utility', '--utility', [CompletionResultType]::ParameterName, 'hadar: value of completing a job: its steps per second (throughput, as in the paper; favours long jobs), or its shortest possible run time divided by its completion time (normalised)')
            [CompletionResult]::new('--worth', '--worth', [CompletionResultType]::ParameterName, 'hadar: budget of a job: the value of completing it (finish, as in the paper), or the part of that value that one round of waiting costs (delay). `--utility normalised --worth delay` gives the best mean completion times')
            [CompletionResult]::new('--network', '--network', [CompletionResultType]::ParameterName, 'mlf-rl: file of the neural network, as `hsched train-policy` writes it')
            [CompletionResult]::new('--overhead', '--overhead', [CompletionResultType]::ParameterName, 'hadare: time in each round for reading and merging copies, such as 5s')
            [CompletionResult]::new('--migrate-part', '--migrate-part', [CompletionResultType]::ParameterName, 'Largest fraction of the tasks on overloaded GPUs that may move')
            [CompletionResult]::new('--time-unit', '--time-unit', [CompletionResultType]::ParameterName, 'Unit of the times in priorities')
            [CompletionResult]::new('--round', '--round', [CompletionResultType]::ParameterName, 'Decide only at multiples of this time [default: at every change; 6m for hadar and hadare]')
            [CompletionResult]::new('--rounds', '--rounds', [CompletionResultType]::ParameterName, 'Stop after this many rounds. Without --round, a round takes 6m, or 1m for task graphs')
            [CompletionResult]::new('--restart-cost', '--restart-cost', [CompletionResultType]::ParameterName, 'Time that each restart costs [default: the job key `checkpoint.restart_cost`, else the setting `restart_cost`]')
            [CompletionResult]::new('--lose', '--lose', [CompletionResultType]::ParameterName, 'Work that a stopped job loses: nothing, or its current epoch')
            [CompletionResult]::new('--queue-wait', '--queue-wait', [CompletionResultType]::ParameterName, 'Decide by the rules of `hsched watch --moves auto` on a shared cluster: no running job is stopped only to wait, and policies that reschedule running jobs stop only jobs with the key `checkpoint`. Each move waits this long in the queue, such as 0s')
            [CompletionResult]::new('--repack', '--repack', [CompletionResultType]::ParameterName, 'Whether running jobs move between nodes of the same type, so that a job on several nodes fits on one: never (off), only to free GPUs (gather), or also by moving other jobs (full)')
            [CompletionResult]::new('--noise', '--noise', [CompletionResultType]::ParameterName, 'Relative error of the work that policies see: each job gets a random factor between 1 - NOISE and 1 + NOISE')
            [CompletionResult]::new('--job-failures', '--job-failures', [CompletionResultType]::ParameterName, 'Mean time between failures of a running job [default: no failures]')
            [CompletionResult]::new('--node-failures', '--node-failures', [CompletionResultType]::ParameterName, 'Mean time between failures of a node [default: no failures]')
            [CompletionResult]::new('--node-repair', '--node-repair', [CompletionResultType]::ParameterName, 'Downtime of a failed node')
            [CompletionResult]::new('--seed', '--seed', [CompletionResultType]::ParameterName, 'Seed of all random choices')
            [CompletionResult]::new('--sweep', '--sweep', [CompletionResultType]::ParameterName, 'Repeat for several values: load=0.5,0.8,1 seed=0..9 restart-cost=0s,60s noise=0,0.3; may be given several times')
            [CompletionResult]::new('--events', '--events', [CompletionResultType]::ParameterName, 'Write all events to this file as JSON lines, policy by policy; - writes them to standard output')
            [CompletionResult]::new('--format', '--format', [CompletionResultType]::ParameterName, 'Output format')
            [CompletionResult]::new('--estimate', '--estimate', [CompletionResultType]::ParameterName, 'Estimate speeds that are neither measured nor in the job file, so that jobs can use these GPU types. `learnt` estimates from other models that were measured on both types; `all` also uses the job files and the table of GPUs [default: setting `estimate`, off]. The job key `estimate` takes precedence')
            [CompletionResult]::new('--set', '--set', [CompletionResultType]::ParameterName, 'Override a setting for this command; may be given several times (`hsched config show` lists them)')
            [CompletionResult]::new('--use-all', '--use-all', [CompletionResultType]::ParameterName, 'optimal: use every GPU that the jobs can use')
            [CompletionResult]::new('--gang', '--gang', [CompletionResultType]::ParameterName, 'Place all tasks of a job or none')
            [CompletionResult]::new('--exclusive', '--exclusive', [CompletionResultType]::ParameterName, 'Run at most one task on a GPU')
            [CompletionResult]::new('--bound', '--bound', [CompletionResultType]::ParameterName, 'Compute a lower bound on the mean completion time of any schedule [default: for up to 1000 jobs]')
            [CompletionResult]::new('--no-bound', '--no-bound', [CompletionResultType]::ParameterName, 'Do not compute the lower bound')
            [CompletionResult]::new('--certificate', '--certificate', [CompletionResultType]::ParameterName, 'Add the certificate to the JSON: the prices that prove the bound')
            [CompletionResult]::new('--no-cache', '--no-cache', [CompletionResultType]::ParameterName, 'Use only the speeds of the job file, not measured speeds')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'hsched;trace' {
            [CompletionResult]::new('--set', '--set', [CompletionResultType]::ParameterName, 'Override a setting for this command; may be given several times (`hsched config show` lists them)')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('from-sacct', 'from-sacct', [CompletionResultType]::ParameterValue, 'Convert the output of `sacct -P` or `sacct --json`, for example to simulate your own last month')
            [CompletionResult]::new('from-philly', 'from-philly', [CompletionResultType]::ParameterValue, 'Convert CSV with the columns `submit_s`, `duration_s` and `num_gpus`, such as the Philly trace')
            [CompletionResult]::new('from-alibaba', 'from-alibaba', [CompletionResultType]::ParameterValue, 'Convert the tasks of Alibaba''s GPU clusters (CSV with `num_gpu`, `gpu_spec`, `submit_s`, `start_s` and `end_s`)')
            [CompletionResult]::new('from-gavel', 'from-gavel', [CompletionResultType]::ParameterValue, 'Convert a trace of Gavel, with its table of measured speeds')
            [CompletionResult]::new('from-sia', 'from-sia', [CompletionResultType]::ParameterValue, 'Convert a workload of Sia, with its profiles')
            break
        }
        'hsched;trace;from-sacct' {
            [CompletionResult]::new('--type', '--type', [CompletionResultType]::ParameterName, 'GPU type of jobs whose record names no type')
            [CompletionResult]::new('-o', '-o', [CompletionResultType]::ParameterName, 'Write the trace to this file [default: standard output]')
            [CompletionResult]::new('--output', '--output', [CompletionResultType]::ParameterName, 'Write the trace to this file [default: standard output]')
            [CompletionResult]::new('--set', '--set', [CompletionResultType]::ParameterName, 'Override a setting for this command; may be given several times (`hsched config show` lists them)')
            [CompletionResult]::new('--estimate', '--estimate', [CompletionResultType]::ParameterName, 'Let jobs use other GPU types, at speeds estimated from the table of GPUs (`hsched gpus`)')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'hsched;trace;from-philly' {
            [CompletionResult]::new('--type', '--type', [CompletionResultType]::ParameterName, 'GPU type of the run times in the file')
            [CompletionResult]::new('-o', '-o', [CompletionResultType]::ParameterName, 'Write the trace to this file [default: standard output]')
            [CompletionResult]::new('--output', '--output', [CompletionResultType]::ParameterName, 'Write the trace to this file [default: standard output]')
            [CompletionResult]::new('--set', '--set', [CompletionResultType]::ParameterName, 'Override a setting for this command; may be given several times (`hsched config show` lists them)')
            [CompletionResult]::new('--estimate', '--estimate', [CompletionResultType]::ParameterName, 'Let jobs use other GPU types, at speeds estimated from the table of GPUs (`hsched gpus`)')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help')
            break
        }
        'hsched;trace;from-alibaba' {
            [CompletionResult]::new('-o', '-o', [CompletionResultType]::ParameterName, 'Write the trace to this file [default: standard output]')
            [CompletionResult]::new('--output', '--output', [CompletionResultType]::ParameterName, 'Write the trace to this file [default: standard output]')
            [CompletionResult]::new('--set', '--set', [CompletionResultType]::ParameterName, 'Override a setting for this command; may be given several times (`hsched config show` lists them)')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'hsched;trace;from-gavel' {
            [CompletionResult]::new('--throughputs', '--throughputs', [CompletionResultType]::ParameterName, 'Steps per second by job type, scale factor and GPU type: the JSON of Gavel, or CSV')
            [CompletionResult]::new('-o', '-o', [CompletionResultType]::ParameterName, 'Write the trace to this file [default: standard output]')
            [CompletionResult]::new('--output', '--output', [CompletionResultType]::ParameterName, 'Write the trace to this file [default: standard output]')
            [CompletionResult]::new('--set', '--set', [CompletionResultType]::ParameterName, 'Override a setting for this command; may be given several times (`hsched config show` lists them)')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help')
            break
        }
        'hsched;trace;from-sia' {
            [CompletionResult]::new('--profiles', '--profiles', [CompletionResultType]::ParameterName, 'Step times on one GPU: CSV with model, gpu, `local_bsz` and `step_time_s`')
            [CompletionResult]::new('--applications', '--applications', [CompletionResultType]::ParameterName, 'Size of the training of each application: CSV with application, `samples_per_epoch`, epochs and `model_size_mb`')
            [CompletionResult]::new('--workload', '--workload', [CompletionResultType]::ParameterName, 'Read only this workload, from a file with the columns trace and workload, such as newtrace/1')
            [CompletionResult]::new('-o', '-o', [CompletionResultType]::ParameterName, 'Write the trace to this file [default: standard output]')
            [CompletionResult]::new('--output', '--output', [CompletionResultType]::ParameterName, 'Write the trace to this file [default: standard output]')
            [CompletionResult]::new('--set', '--set', [CompletionResultType]::ParameterName, 'Override a setting for this command; may be given several times (`hsched config show` lists them)')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help')
            break
        }
        'hsched;train-policy' {
            [CompletionResult]::new('--traces', '--traces', [CompletionResultType]::ParameterName, 'Directory of traces: all .yaml, .yml, .json and .csv files in it')
            [CompletionResult]::new('--clusters', '--clusters', [CompletionResultType]::ParameterName, 'Directory of cluster files (.yaml or .yml); the traces use them in turn')
            [CompletionResult]::new('-o', '-o', [CompletionResultType]::ParameterName, 'File for the network; an existing file is replaced')
            [CompletionResult]::new('--output', '--output', [CompletionResultType]::ParameterName, 'File for the network; an existing file is replaced')
            [CompletionResult]::new('--passes', '--passes', [CompletionResultType]::ParameterName, 'Number of passes over the traces, with eight runs of each trace in a pass; 0 only imitates mlf-h')
            [CompletionResult]::new('--seed', '--seed', [CompletionResultType]::ParameterName, 'Seed of all random choices')
            [CompletionResult]::new('--format', '--format', [CompletionResultType]::ParameterName, 'Output format')
            [CompletionResult]::new('--estimate', '--estimate', [CompletionResultType]::ParameterName, 'Estimate speeds that are neither measured nor in the job file, so that jobs can use these GPU types. `learnt` estimates from other models that were measured on both types; `all` also uses the job files and the table of GPUs [default: setting `estimate`, off]. The job key `estimate` takes precedence')
            [CompletionResult]::new('--set', '--set', [CompletionResultType]::ParameterName, 'Override a setting for this command; may be given several times (`hsched config show` lists them)')
            [CompletionResult]::new('--dry-run', '--dry-run', [CompletionResultType]::ParameterName, 'Check the traces and clusters, without training or writing')
            [CompletionResult]::new('--no-cache', '--no-cache', [CompletionResultType]::ParameterName, 'Use only the speeds of the job file, not measured speeds')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'hsched;check-ddp' {
            [CompletionResult]::new('--python', '--python', [CompletionResultType]::ParameterName, 'Python interpreter that has your torch')
            [CompletionResult]::new('--device', '--device', [CompletionResultType]::ParameterName, 'Device of the ranks. With fewer than four GPUs, the ranks share the GPUs and use gloo')
            [CompletionResult]::new('--format', '--format', [CompletionResultType]::ParameterName, 'Output format')
            [CompletionResult]::new('--set', '--set', [CompletionResultType]::ParameterName, 'Override a setting for this command; may be given several times (`hsched config show` lists them)')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'hsched;consolidate' {
            [CompletionResult]::new('--output', '--output', [CompletionResultType]::ParameterName, 'File for the merged model; an existing file is replaced')
            [CompletionResult]::new('--format', '--format', [CompletionResultType]::ParameterName, 'Output format')
            [CompletionResult]::new('--set', '--set', [CompletionResultType]::ParameterName, 'Override a setting for this command; may be given several times (`hsched config show` lists them)')
            [CompletionResult]::new('--dry-run', '--dry-run', [CompletionResultType]::ParameterName, 'Check the files and show what would be merged, without writing it')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
    })

    $completions.Where{ $_.CompletionText -like "$wordToComplete*" } |
        Sort-Object -Property ListItemText
}
