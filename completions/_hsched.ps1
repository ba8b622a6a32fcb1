
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
            [CompletionResult]::new('when', 'when', [CompletionResultType]::ParameterValue, 'Show which request of each job would finish first: wait in the queue and run together')
            [CompletionResult]::new('run', 'run', [CompletionResultType]::ParameterValue, 'Run jobs on the GPUs of this machine, without Slurm')
            [CompletionResult]::new('submit', 'submit', [CompletionResultType]::ParameterValue, 'Write a job script for each placed job and submit it with sbatch')
            [CompletionResult]::new('add', 'add', [CompletionResultType]::ParameterValue, 'Add jobs for `hsched watch` to place; submits nothing')
            [CompletionResult]::new('watch', 'watch', [CompletionResultType]::ParameterValue, 'Follow the jobs: count epochs, measure speeds, submit waiting jobs to free GPUs, retry failed jobs')
            [CompletionResult]::new('probe', 'probe', [CompletionResultType]::ParameterValue, 'Measure the speed of jobs on GPU types without a known speed, with short Slurm jobs')
            [CompletionResult]::new('status', 'status', [CompletionResultType]::ParameterValue, 'Show all jobs: state, GPUs, epochs, predicted and observed epoch times, expected end')
            [CompletionResult]::new('logs', 'logs', [CompletionResultType]::ParameterValue, 'Print what a job has printed')
            [CompletionResult]::new('cancel', 'cancel', [CompletionResultType]::ParameterValue, 'Cancel jobs, waiting or in Slurm''s queue')
            [CompletionResult]::new('report', 'report', [CompletionResultType]::ParameterValue, 'Report that an epoch is done, from inside a job, for training programs in any language')
            [CompletionResult]::new('curve', 'curve', [CompletionResultType]::ParameterValue, 'Predict a metric at the last epoch from a training''s log, and say whether to go on')
            [CompletionResult]::new('gpus', 'gpus', [CompletionResultType]::ParameterValue, 'Show known GPU models: memory, speed, MIG slices, names')
            [CompletionResult]::new('cache', 'cache', [CompletionResultType]::ParameterValue, 'Show, edit and share the measured speeds')
            [CompletionResult]::new('config', 'config', [CompletionResultType]::ParameterValue, 'Show the settings')
            [CompletionResult]::new('doctor', 'doctor', [CompletionResultType]::ParameterValue, 'Check Slurm, its GPUs, the settings and the state directory, and say what to do')
            [CompletionResult]::new('init', 'init', [CompletionResultType]::ParameterValue, 'Write a job file and a settings file to start from')
            [CompletionResult]::new('import', 'import', [CompletionResultType]::ParameterValue, 'Make a job file from a batch script')
            [CompletionResult]::new('generate', 'generate', [CompletionResultType]::ParameterValue, 'Generate a random cluster and random jobs, to try or benchmark hsched')
            [CompletionResult]::new('demo', 'demo', [CompletionResultType]::ParameterValue, 'Show what hsched does on a simulated cluster: plan, submit, watch, measure and re-plan')
            [CompletionResult]::new('simulate', 'simulate', [CompletionResultType]::ParameterValue, 'Simulate policies on a trace of jobs that come and go: what they would do to your week')
            [CompletionResult]::new('trace', 'trace', [CompletionResultType]::ParameterValue, 'Convert what ran on a cluster, or a published trace, into a trace for `hsched simulate`')
            [CompletionResult]::new('train-policy', 'train-policy', [CompletionResultType]::ParameterValue, 'Train a net that chooses who gets GPUs next, for the policy mlf-rl')
            [CompletionResult]::new('check-ddp', 'check-ddp', [CompletionResultType]::ParameterValue, 'Check that your version of torch computes correct gradients with unequal local batches')
            [CompletionResult]::new('consolidate', 'consolidate', [CompletionResultType]::ParameterValue, 'Merge the weights of copies that trained apart into one model')
            break
        }
        'hsched;inventory' {
            [CompletionResult]::new('--cluster', '--cluster', [CompletionResultType]::ParameterName, 'Read a cluster file instead of asking Slurm')
            [CompletionResult]::new('--from', '--from', [CompletionResultType]::ParameterName, 'Read saved Slurm output instead of asking Slurm; - reads standard input')
            [CompletionResult]::new('--columns', '--columns', [CompletionResultType]::ParameterName, 'Format of a table without a header line given to --from')
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
            [CompletionResult]::new('--explain', '--explain', [CompletionResultType]::ParameterName, 'Explain the plan instead of printing it: prices of the GPUs and all jobs in short, or one job in full. With --queue, the requests of each job that no other beats both in time and in cost')
            [CompletionResult]::new('--snapshot', '--snapshot', [CompletionResultType]::ParameterName, 'Read a saved snapshot of a queue instead of asking Slurm; several, one of each cluster, tell which cluster to use')
            [CompletionResult]::new('--cost-weight', '--cost-weight', [CompletionResultType]::ParameterName, 'What one RGU-hour or billing-hour is worth, in hours until the job is done; 0 takes the first to finish, and a cheaper one only where it is done within 5 % or 10 min of it')
            [CompletionResult]::new('--futures', '--futures', [CompletionResultType]::ParameterName, 'Futures of the queue to look at, unless --budget is over before [default: 60; 24 where jobs are chosen together]')
            [CompletionResult]::new('--cluster', '--cluster', [CompletionResultType]::ParameterName, 'Read a cluster file instead of asking Slurm')
            [CompletionResult]::new('--from', '--from', [CompletionResultType]::ParameterName, 'Read saved Slurm output instead of asking Slurm; - reads standard input')
            [CompletionResult]::new('--columns', '--columns', [CompletionResultType]::ParameterName, 'Format of a table without a header line given to --from')
            [CompletionResult]::new('--policy', '--policy', [CompletionResultType]::ParameterName, 'Policy that places the jobs. All but optimal use every GPU that the jobs can use')
            [CompletionResult]::new('--objective', '--objective', [CompletionResultType]::ParameterName, 'Objective to minimise')
            [CompletionResult]::new('--alpha', '--alpha', [CompletionResultType]::ParameterName, 'jps: where the sampled range of categories begins, as a fraction of all')
            [CompletionResult]::new('--beta', '--beta', [CompletionResultType]::ParameterName, 'jps: weight of speed versus fairness')
            [CompletionResult]::new('--samples', '--samples', [CompletionResultType]::ParameterName, 'jps: number of categories to sample')
            [CompletionResult]::new('--seed', '--seed', [CompletionResultType]::ParameterName, 'Seed of all random choices')
            [CompletionResult]::new('--capacity', '--capacity', [CompletionResultType]::ParameterName, 'Which GPUs the plan may use [default: limits if the setting `capacity` is set, else free]')
            [CompletionResult]::new('--estimate', '--estimate', [CompletionResultType]::ParameterName, 'Estimate missing speeds, so that jobs may use GPU types that their file does not list and on which their model was never measured: `learnt` from other models measured on both types, `all` also from the job files and the table of GPUs [default: setting `estimate`, off]. The job key `estimate` takes precedence')
            [CompletionResult]::new('--budget', '--budget', [CompletionResultType]::ParameterName, 'Stop the search after this time and use the best plan found so far, such as 10s or 2m [default: 1s for optimal and for lower bounds, unlimited for other policies]')
            [CompletionResult]::new('--set', '--set', [CompletionResultType]::ParameterName, 'Override a setting for this command; may be given several times (`hsched config show` lists them)')
            [CompletionResult]::new('--queue', '--queue', [CompletionResultType]::ParameterName, 'Plan through Slurm''s queue: which request of each job to make so that all are done soonest on average. Starts are estimated as for `hsched when`, and each chosen request is in the queue of the others')
            [CompletionResult]::new('--use-all', '--use-all', [CompletionResultType]::ParameterName, 'optimal: use every GPU that the jobs can use')
            [CompletionResult]::new('--pin', '--pin', [CompletionResultType]::ParameterName, 'Request exactly the nodes of the plan, not any nodes with the same GPUs')
            [CompletionResult]::new('--no-cache', '--no-cache', [CompletionResultType]::ParameterName, 'Use only the speeds of the job file, not measured speeds')
            [CompletionResult]::new('--no-bound', '--no-bound', [CompletionResultType]::ParameterName, 'Do not compute a lower bound for plans of policies other than optimal')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'hsched;when' {
            [CompletionResult]::new('--format', '--format', [CompletionResultType]::ParameterName, 'Output format')
            [CompletionResult]::new('--snapshot', '--snapshot', [CompletionResultType]::ParameterName, 'Read a saved snapshot of a queue instead of asking Slurm; several, one of each cluster, tell which cluster to use')
            [CompletionResult]::new('--cost-weight', '--cost-weight', [CompletionResultType]::ParameterName, 'What one RGU-hour or billing-hour is worth, in hours until the job is done; 0 takes the first to finish, and a cheaper one only where it is done within 5 % or 10 min of it')
            [CompletionResult]::new('--futures', '--futures', [CompletionResultType]::ParameterName, 'Futures of the queue to look at, unless --budget is over before [default: 60; 24 where jobs are chosen together]')
            [CompletionResult]::new('--save', '--save', [CompletionResultType]::ParameterName, 'Also save the snapshot of the queue to this file, as JSON')
            [CompletionResult]::new('--seed', '--seed', [CompletionResultType]::ParameterName, 'Seed of all random choices')
            [CompletionResult]::new('--budget', '--budget', [CompletionResultType]::ParameterName, 'Stop looking at futures after this time, such as 10s or 2m')
            [CompletionResult]::new('--estimate', '--estimate', [CompletionResultType]::ParameterName, 'Estimate missing speeds, so that jobs may use GPU types that their file does not list and on which their model was never measured: `learnt` from other models measured on both types, `all` also from the job files and the table of GPUs [default: setting `estimate`, off]. The job key `estimate` takes precedence')
            [CompletionResult]::new('--set', '--set', [CompletionResultType]::ParameterName, 'Override a setting for this command; may be given several times (`hsched config show` lists them)')
            [CompletionResult]::new('--score', '--score', [CompletionResultType]::ParameterName, 'Show instead how right was what `hsched submit --queue` foretold in the last ninety days. Asks Slurm nothing: starts are known from hsched watch')
            [CompletionResult]::new('--no-cache', '--no-cache', [CompletionResultType]::ParameterName, 'Use only the speeds of the job file, not measured speeds')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'hsched;run' {
            [CompletionResult]::new('--devices', '--devices', [CompletionResultType]::ParameterName, 'Imagine these devices, such as cpu:4 or v100:2,t4:2, instead of looking for GPUs. Programs then see no GPU')
            [CompletionResult]::new('--policy', '--policy', [CompletionResultType]::ParameterName, 'Policy that decides who gets which devices, and when jobs make room for others')
            [CompletionResult]::new('--sharing', '--sharing', [CompletionResultType]::ParameterName, 'hadar: whether each GPU of a job takes an equal part of the batch, as in the paper, or one that fits its speed')
            [CompletionResult]::new('--utility', '--utility', [CompletionResultType]::ParameterName, 'hadar: what finishing is worth: steps per second (throughput), as in the paper, which serves long jobs first, or the time alone over the time from arrival to completion (normalised)')
            [CompletionResult]::new('--worth', '--worth', [CompletionResultType]::ParameterName, 'hadar: what a job pays with: that worth (finish), as in the paper, or what of it a round''s wait costs (delay). The best mean completion times are with --utility normalised --worth delay')
            [CompletionResult]::new('--network', '--network', [CompletionResultType]::ParameterName, 'mlf-rl: its net, as hsched train-policy writes it')
            [CompletionResult]::new('--objective', '--objective', [CompletionResultType]::ParameterName, 'Objective to minimise')
            [CompletionResult]::new('--alpha', '--alpha', [CompletionResultType]::ParameterName, 'jps: where the sampled range of categories begins, as a fraction of all')
            [CompletionResult]::new('--beta', '--beta', [CompletionResultType]::ParameterName, 'jps: weight of speed versus fairness')
            [CompletionResult]::new('--samples', '--samples', [CompletionResultType]::ParameterName, 'jps: number of categories to sample')
            [CompletionResult]::new('--seed', '--seed', [CompletionResultType]::ParameterName, 'Seed of all random choices')
            [CompletionResult]::new('--notify', '--notify', [CompletionResultType]::ParameterName, 'Command to call when jobs have completed or failed, or will not start by themselves (setting notify). What happened is on its standard input, a line for each job')
            [CompletionResult]::new('--estimate', '--estimate', [CompletionResultType]::ParameterName, 'Estimate missing speeds, so that jobs may use GPU types that their file does not list and on which their model was never measured: `learnt` from other models measured on both types, `all` also from the job files and the table of GPUs [default: setting `estimate`, off]. The job key `estimate` takes precedence')
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
            [CompletionResult]::new('--race', '--race', [CompletionResultType]::ParameterName, 'Queue so many of these requests of each job: the first to start trains, the others leave the queue or end at once. More than 1 implies --queue')
            [CompletionResult]::new('--cost-weight', '--cost-weight', [CompletionResultType]::ParameterName, 'What one RGU-hour or billing-hour is worth, in hours until the job is done; 0 takes the first to finish, and a cheaper one only where it is done within 5 % or 10 min of it')
            [CompletionResult]::new('--futures', '--futures', [CompletionResultType]::ParameterName, 'Futures of the queue to look at, unless --budget is over before [default: 60; 24 where jobs are chosen together]')
            [CompletionResult]::new('--run-id', '--run-id', [CompletionResultType]::ParameterName, 'Id of this run [default: the time and a random number]')
            [CompletionResult]::new('--format', '--format', [CompletionResultType]::ParameterName, 'Output format')
            [CompletionResult]::new('--gpus', '--gpus', [CompletionResultType]::ParameterName, 'With --together: the GPUs of each node, such as v100:4 or v100:2,t4:2')
            [CompletionResult]::new('--nodes', '--nodes', [CompletionResultType]::ParameterName, 'With --together: the number of nodes')
            [CompletionResult]::new('--time', '--time', [CompletionResultType]::ParameterName, 'With --together: how long the allocation lasts, such as 12h')
            [CompletionResult]::new('--cluster', '--cluster', [CompletionResultType]::ParameterName, 'Read a cluster file instead of asking Slurm')
            [CompletionResult]::new('--from', '--from', [CompletionResultType]::ParameterName, 'Read saved Slurm output instead of asking Slurm; - reads standard input')
            [CompletionResult]::new('--columns', '--columns', [CompletionResultType]::ParameterName, 'Format of a table without a header line given to --from')
            [CompletionResult]::new('--objective', '--objective', [CompletionResultType]::ParameterName, 'Objective to minimise')
            [CompletionResult]::new('--alpha', '--alpha', [CompletionResultType]::ParameterName, 'jps: where the sampled range of categories begins, as a fraction of all')
            [CompletionResult]::new('--beta', '--beta', [CompletionResultType]::ParameterName, 'jps: weight of speed versus fairness')
            [CompletionResult]::new('--samples', '--samples', [CompletionResultType]::ParameterName, 'jps: number of categories to sample')
            [CompletionResult]::new('--seed', '--seed', [CompletionResultType]::ParameterName, 'Seed of all random choices')
            [CompletionResult]::new('--capacity', '--capacity', [CompletionResultType]::ParameterName, 'Which GPUs the plan may use [default: limits if the setting `capacity` is set, else free]')
            [CompletionResult]::new('--estimate', '--estimate', [CompletionResultType]::ParameterName, 'Estimate missing speeds, so that jobs may use GPU types that their file does not list and on which their model was never measured: `learnt` from other models measured on both types, `all` also from the job files and the table of GPUs [default: setting `estimate`, off]. The job key `estimate` takes precedence')
            [CompletionResult]::new('--budget', '--budget', [CompletionResultType]::ParameterName, 'Stop the search after this time and use the best plan found so far, such as 10s or 2m [default: 1s for optimal and for lower bounds, unlimited for other policies]')
            [CompletionResult]::new('--policy', '--policy', [CompletionResultType]::ParameterName, 'Policy that places the jobs. All but optimal use every GPU that the jobs can use. With --together, the policy of hsched run, which may also decide over time [default with --together: horizon]')
            [CompletionResult]::new('--set', '--set', [CompletionResultType]::ParameterName, 'Override a setting for this command; may be given several times (`hsched config show` lists them)')
            [CompletionResult]::new('--dry-run', '--dry-run', [CompletionResultType]::ParameterName, 'Print the scripts and submit nothing. If you submit a script yourself, `hsched watch` does not follow that job')
            [CompletionResult]::new('--restart', '--restart', [CompletionResultType]::ParameterName, 'Start over at the first epoch. Checkpoints are not deleted: remove them, or the training program resumes from them')
            [CompletionResult]::new('--queue', '--queue', [CompletionResultType]::ParameterName, 'Submit what `hsched plan --queue` chooses: for each job the GPUs, account, partition and time limit with which all are done soonest on average, wait in the queue and run together')
            [CompletionResult]::new('--together', '--together', [CompletionResultType]::ParameterName, 'Submit one Slurm job in which hsched run runs all jobs, instead of one for each')
            [CompletionResult]::new('--use-all', '--use-all', [CompletionResultType]::ParameterName, 'optimal: use every GPU that the jobs can use')
            [CompletionResult]::new('--pin', '--pin', [CompletionResultType]::ParameterName, 'Request exactly the nodes of the plan, not any nodes with the same GPUs')
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
            [CompletionResult]::new('--estimate', '--estimate', [CompletionResultType]::ParameterName, 'Estimate missing speeds, so that jobs may use GPU types that their file does not list and on which their model was never measured: `learnt` from other models measured on both types, `all` also from the job files and the table of GPUs [default: setting `estimate`, off]. The job key `estimate` takes precedence')
            [CompletionResult]::new('--policy', '--policy', [CompletionResultType]::ParameterName, 'Policy that places the jobs. All but optimal use every GPU that the jobs can use')
            [CompletionResult]::new('--objective', '--objective', [CompletionResultType]::ParameterName, 'Objective to minimise')
            [CompletionResult]::new('--alpha', '--alpha', [CompletionResultType]::ParameterName, 'jps: where the sampled range of categories begins, as a fraction of all')
            [CompletionResult]::new('--beta', '--beta', [CompletionResultType]::ParameterName, 'jps: weight of speed versus fairness')
            [CompletionResult]::new('--samples', '--samples', [CompletionResultType]::ParameterName, 'jps: number of categories to sample')
            [CompletionResult]::new('--seed', '--seed', [CompletionResultType]::ParameterName, 'Seed of all random choices')
            [CompletionResult]::new('--format', '--format', [CompletionResultType]::ParameterName, 'Output format')
            [CompletionResult]::new('--set', '--set', [CompletionResultType]::ParameterName, 'Override a setting for this command; may be given several times (`hsched config show` lists them)')
            [CompletionResult]::new('--dry-run', '--dry-run', [CompletionResultType]::ParameterName, 'Show what would be added, and add nothing')
            [CompletionResult]::new('--restart', '--restart', [CompletionResultType]::ParameterName, 'Start over at the first epoch. Checkpoints are not deleted: remove them, or the training program resumes from them')
            [CompletionResult]::new('--use-all', '--use-all', [CompletionResultType]::ParameterName, 'optimal: use every GPU that the jobs can use')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'hsched;watch' {
            [CompletionResult]::new('--interval', '--interval', [CompletionResultType]::ParameterName, 'Time between two turns, such as 30s or 5m')
            [CompletionResult]::new('--moves', '--moves', [CompletionResultType]::ParameterName, 'Whether to stop running jobs to move them to better GPUs. With never, free GPUs only go to waiting jobs')
            [CompletionResult]::new('--race', '--race', [CompletionResultType]::ParameterName, 'race')
            [CompletionResult]::new('--margin', '--margin', [CompletionResultType]::ParameterName, 'auto: move a job only if the time saved exceeds the cost of the restart by this fraction of the cost')
            [CompletionResult]::new('--notify', '--notify', [CompletionResultType]::ParameterName, 'Command to call when jobs have completed or failed, or will not start by themselves (setting notify). What happened is on its standard input, a line for each job')
            [CompletionResult]::new('--objective', '--objective', [CompletionResultType]::ParameterName, 'Objective to minimise')
            [CompletionResult]::new('--alpha', '--alpha', [CompletionResultType]::ParameterName, 'jps: where the sampled range of categories begins, as a fraction of all')
            [CompletionResult]::new('--beta', '--beta', [CompletionResultType]::ParameterName, 'jps: weight of speed versus fairness')
            [CompletionResult]::new('--samples', '--samples', [CompletionResultType]::ParameterName, 'jps: number of categories to sample')
            [CompletionResult]::new('--seed', '--seed', [CompletionResultType]::ParameterName, 'Seed of all random choices')
            [CompletionResult]::new('--sharing', '--sharing', [CompletionResultType]::ParameterName, 'hadar: whether each GPU of a job takes an equal part of the batch, as in the paper, or one that fits its speed')
            [CompletionResult]::new('--utility', '--utility', [CompletionResultType]::ParameterName, 'hadar: what finishing is worth: steps per second (throughput), as in the paper, which serves long jobs first, or the time alone over the time from arrival to completion (normalised)')
            [CompletionResult]::new('--worth', '--worth', [CompletionResultType]::ParameterName, 'hadar: what a job pays with: that worth (finish), as in the paper, or what of it a round''s wait costs (delay). The best mean completion times are with --utility normalised --worth delay')
            [CompletionResult]::new('--network', '--network', [CompletionResultType]::ParameterName, 'mlf-rl: its net, as hsched train-policy writes it')
            [CompletionResult]::new('--estimate', '--estimate', [CompletionResultType]::ParameterName, 'Estimate missing speeds, so that jobs may use GPU types that their file does not list and on which their model was never measured: `learnt` from other models measured on both types, `all` also from the job files and the table of GPUs [default: setting `estimate`, off]. The job key `estimate` takes precedence')
            [CompletionResult]::new('--format', '--format', [CompletionResultType]::ParameterName, 'Output format: text, or one JSON object per line with time, job, topic and text')
            [CompletionResult]::new('--budget', '--budget', [CompletionResultType]::ParameterName, 'Stop each search after this time and use the best plan found so far')
            [CompletionResult]::new('--policy', '--policy', [CompletionResultType]::ParameterName, 'Policy that places the jobs. All but optimal use every GPU that the jobs can use')
            [CompletionResult]::new('--set', '--set', [CompletionResultType]::ParameterName, 'Override a setting for this command; may be given several times (`hsched config show` lists them)')
            [CompletionResult]::new('--once', '--once', [CompletionResultType]::ParameterName, 'Run one turn and exit')
            [CompletionResult]::new('--forever', '--forever', [CompletionResultType]::ParameterName, 'Keep running when all jobs have ended, for jobs that are added later')
            [CompletionResult]::new('--dry-run', '--dry-run', [CompletionResultType]::ParameterName, 'Show what would be done and why, without doing it')
            [CompletionResult]::new('--queue', '--queue', [CompletionResultType]::ParameterName, 'Also submit jobs that find no free GPUs, or are done sooner on others: they wait in Slurm''s queue')
            [CompletionResult]::new('--pin', '--pin', [CompletionResultType]::ParameterName, 'Request exactly the nodes of the plan, not any nodes with the same GPUs')
            [CompletionResult]::new('--use-all', '--use-all', [CompletionResultType]::ParameterName, 'optimal: use every GPU that the jobs can use')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'hsched;probe' {
            [CompletionResult]::new('-j', '-j', [CompletionResultType]::ParameterName, 'Probe only this job; may be given several times')
            [CompletionResult]::new('--job', '--job', [CompletionResultType]::ParameterName, 'Probe only this job; may be given several times')
            [CompletionResult]::new('--time', '--time', [CompletionResultType]::ParameterName, 'Time limit of a probe, such as 5m; at least one minute')
            [CompletionResult]::new('--format', '--format', [CompletionResultType]::ParameterName, 'Output format')
            [CompletionResult]::new('--set', '--set', [CompletionResultType]::ParameterName, 'Override a setting for this command; may be given several times (`hsched config show` lists them)')
            [CompletionResult]::new('--all', '--all', [CompletionResultType]::ParameterName, 'Also probe GPU types whose speed is known only from the job file')
            [CompletionResult]::new('--dry-run', '--dry-run', [CompletionResultType]::ParameterName, 'Show what would be measured, and submit nothing')
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
            [CompletionResult]::new('--tail', '--tail', [CompletionResultType]::ParameterName, 'Print only the last lines; with --follow, begin with them')
            [CompletionResult]::new('--run', '--run', [CompletionResultType]::ParameterName, 'Print the output of this run (`hsched status JOB` lists them)')
            [CompletionResult]::new('--attempt', '--attempt', [CompletionResultType]::ParameterName, 'Print the output of this submission, counted from 1')
            [CompletionResult]::new('--set', '--set', [CompletionResultType]::ParameterName, 'Override a setting for this command; may be given several times (`hsched config show` lists them)')
            [CompletionResult]::new('-f', '-f', [CompletionResultType]::ParameterName, 'Keep printing as the output grows, over moves and retries, until the job has ended')
            [CompletionResult]::new('--follow', '--follow', [CompletionResultType]::ParameterName, 'Keep printing as the output grows, over moves and retries, until the job has ended')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'hsched;cancel' {
            [CompletionResult]::new('--format', '--format', [CompletionResultType]::ParameterName, 'Output format')
            [CompletionResult]::new('--set', '--set', [CompletionResultType]::ParameterName, 'Override a setting for this command; may be given several times (`hsched config show` lists them)')
            [CompletionResult]::new('--all', '--all', [CompletionResultType]::ParameterName, 'All jobs that have not ended')
            [CompletionResult]::new('--dry-run', '--dry-run', [CompletionResultType]::ParameterName, 'Show what would be cancelled, and cancel nothing')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'hsched;report' {
            [CompletionResult]::new('--epoch', '--epoch', [CompletionResultType]::ParameterName, 'Number of the finished epoch, from 1')
            [CompletionResult]::new('--compute-s', '--compute-s', [CompletionResultType]::ParameterName, 'Seconds that this rank computed in the epoch, without waiting for other ranks')
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
            [CompletionResult]::new('--history', '--history', [CompletionResultType]::ParameterName, 'The same, by name')
            [CompletionResult]::new('--metric', '--metric', [CompletionResultType]::ParameterName, 'Metric to look at [default: the only one, else the loss]')
            [CompletionResult]::new('--mode', '--mode', [CompletionResultType]::ParameterName, 'Whether the metric should fall or rise [default: min for a loss or an error, else max]')
            [CompletionResult]::new('--epochs', '--epochs', [CompletionResultType]::ParameterName, 'Epochs of the whole training [default: twice those of the log]')
            [CompletionResult]::new('--target', '--target', [CompletionResultType]::ParameterName, 'Value that is enough')
            [CompletionResult]::new('--rule', '--rule', [CompletionResultType]::ParameterName, 'Rule by which to stop [default: target where one is given, else best]')
            [CompletionResult]::new('--patience', '--patience', [CompletionResultType]::ParameterName, 'Stop when so many epochs have brought nothing better')
            [CompletionResult]::new('--confidence', '--confidence', [CompletionResultType]::ParameterName, 'How certain a prediction must be')
            [CompletionResult]::new('--tolerance', '--tolerance', [CompletionResultType]::ParameterName, 'What counts as better, in the metric''s unit [default: 0.02 of the range seen]')
            [CompletionResult]::new('--svg', '--svg', [CompletionResultType]::ParameterName, 'Also write a picture to this file, as SVG')
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
            [CompletionResult]::new('import', 'import', [CompletionResultType]::ParameterValue, 'Import speeds that somebody exported')
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
            [CompletionResult]::new('--restore', '--restore', [CompletionResultType]::ParameterName, 'Go on from the state in this file: state.json, state.json.old or journal in the state directory, or the path of a copy of one of them')
            [CompletionResult]::new('--format', '--format', [CompletionResultType]::ParameterName, 'Output format')
            [CompletionResult]::new('--set', '--set', [CompletionResultType]::ParameterName, 'Override a setting for this command; may be given several times (`hsched config show` lists them)')
            [CompletionResult]::new('--dry-run', '--dry-run', [CompletionResultType]::ParameterName, 'Only show what --restore would do')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'hsched;init' {
            [CompletionResult]::new('--cluster', '--cluster', [CompletionResultType]::ParameterName, 'Read a cluster file instead of asking Slurm')
            [CompletionResult]::new('--from', '--from', [CompletionResultType]::ParameterName, 'Read saved Slurm output instead of asking Slurm; - reads standard input')
            [CompletionResult]::new('--columns', '--columns', [CompletionResultType]::ParameterName, 'Format of a table without a header line given to --from')
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
            [CompletionResult]::new('--dry-run', '--dry-run', [CompletionResultType]::ParameterName, 'Print the job file, and write none')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'hsched;generate' {
            [CompletionResult]::new('--gpus', '--gpus', [CompletionResultType]::ParameterName, 'Number of GPUs in the cluster')
            [CompletionResult]::new('--gpus-per-node', '--gpus-per-node', [CompletionResultType]::ParameterName, 'GPUs per node; the last node gets the remainder')
            [CompletionResult]::new('--types', '--types', [CompletionResultType]::ParameterName, 'Number of GPU types, or their names separated by commas; types not listed above need a speed: v100,l40s=1.4')
            [CompletionResult]::new('--jobs', '--jobs', [CompletionResultType]::ParameterName, 'Number of jobs')
            [CompletionResult]::new('--sync', '--sync', [CompletionResultType]::ParameterName, 'When gradients are exchanged')
            [CompletionResult]::new('--network-gbps', '--network-gbps', [CompletionResultType]::ParameterName, 'Bandwidth between nodes, in Gbit/s')
            [CompletionResult]::new('--intra-node-gbps', '--intra-node-gbps', [CompletionResultType]::ParameterName, 'Bandwidth between the GPUs of a node, in Gbit/s')
            [CompletionResult]::new('--seed', '--seed', [CompletionResultType]::ParameterName, 'Random seed')
            [CompletionResult]::new('--format', '--format', [CompletionResultType]::ParameterName, 'Output format')
            [CompletionResult]::new('--set', '--set', [CompletionResultType]::ParameterName, 'Override a setting for this command; may be given several times (`hsched config show` lists them)')
            [CompletionResult]::new('--mixed', '--mixed', [CompletionResultType]::ParameterName, 'Put two GPU types into each node')
            [CompletionResult]::new('--rich', '--rich', [CompletionResultType]::ParameterName, 'Also generate fixed step costs, limits on GPU counts and types, memory limits, overlap and weights')
            [CompletionResult]::new('--force', '--force', [CompletionResultType]::ParameterName, 'Overwrite existing files')
            [CompletionResult]::new('--dry-run', '--dry-run', [CompletionResultType]::ParameterName, 'Print the files and write nothing')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('trace', 'trace', [CompletionResultType]::ParameterValue, 'Generate a random trace for `hsched simulate`, after the rules of published studies')
            break
        }
        'hsched;generate;trace' {
            [CompletionResult]::new('--rules', '--rules', [CompletionResultType]::ParameterName, 'Rules by which jobs are made')
            [CompletionResult]::new('--throughputs', '--throughputs', [CompletionResultType]::ParameterName, 'Gavel''s table of steps per second (its JSON, or CSV), for --rules gavel')
            [CompletionResult]::new('--types', '--types', [CompletionResultType]::ParameterName, 'GPU types for --rules heavy-tails: a number, or names separated by commas; types without a known speed need one: v100,l40s=1.4')
            [CompletionResult]::new('--no-faster-than', '--no-faster-than', [CompletionResultType]::ParameterName, 'Make no GPU type faster than this one, for --rules gavel: most of Gavel''s published figures were made so, with v100')
            [CompletionResult]::new('--sync', '--sync', [CompletionResultType]::ParameterName, 'When gradients are exchanged, for --rules paper')
            [CompletionResult]::new('--jobs', '--jobs', [CompletionResultType]::ParameterName, 'Number of jobs')
            [CompletionResult]::new('--gap', '--gap', [CompletionResultType]::ParameterName, 'Mean time between arrivals')
            [CompletionResult]::new('--recorded', '--recorded', [CompletionResultType]::ParameterName, 'Take arrivals, lengths and numbers of GPUs from CSV with `submit_s`, `duration_s` and `num_gpus`, such as the Philly trace')
            [CompletionResult]::new('--load', '--load', [CompletionResultType]::ParameterName, 'Move arrivals apart or together so that the jobs ask for this part of the cluster')
            [CompletionResult]::new('--cluster', '--cluster', [CompletionResultType]::ParameterName, 'Read a cluster file instead of asking Slurm')
            [CompletionResult]::new('--from', '--from', [CompletionResultType]::ParameterName, 'Read saved Slurm output instead of asking Slurm; - reads standard input')
            [CompletionResult]::new('--columns', '--columns', [CompletionResultType]::ParameterName, 'Format of a table without a header line given to --from')
            [CompletionResult]::new('--seed', '--seed', [CompletionResultType]::ParameterName, 'Random seed')
            [CompletionResult]::new('-o', '-o', [CompletionResultType]::ParameterName, 'Write the trace to this file [default: standard output]')
            [CompletionResult]::new('--output', '--output', [CompletionResultType]::ParameterName, 'Write the trace to this file [default: standard output]')
            [CompletionResult]::new('--set', '--set', [CompletionResultType]::ParameterName, 'Override a setting for this command; may be given several times (`hsched config show` lists them)')
            [CompletionResult]::new('--single-gpu', '--single-gpu', [CompletionResultType]::ParameterName, 'Give every job of --rules gavel one GPU')
            [CompletionResult]::new('--mouldable', '--mouldable', [CompletionResultType]::ParameterName, 'Let jobs run on other numbers of GPUs than they ask for')
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
            [CompletionResult]::new('--columns', '--columns', [CompletionResultType]::ParameterName, 'Format of a table without a header line given to --from')
            [CompletionResult]::new('--policy', '--policy', [CompletionResultType]::ParameterName, 'Policies, separated by commas. Those that `hsched plan` has place all jobs again whenever one comes or goes')
            [CompletionResult]::new('--objective', '--objective', [CompletionResultType]::ParameterName, 'What to minimise, for the policies of `hsched plan` and for hadare (mean-jct: jobs that are near to their end take the nodes that they need for it; makespan: the job that ends last gets the next node). All others have an objective of their own')
            [CompletionResult]::new('--execution', '--execution', [CompletionResultType]::ParameterName, 'Whether each task computes alone, at any time, as in the papers, or all GPUs of a job together, as on a cluster')
            [CompletionResult]::new('--assign', '--assign', [CompletionResultType]::ParameterName, 'hare: whether a task goes to the GPU that is free first (available), on which it ends first (finish), or also into time between earlier tasks (insert)')
            [CompletionResult]::new('--groups', '--groups', [CompletionResultType]::ParameterName, 'hlas: which GPUs are given out together: gpus (each alone), nodes (those of a node), or the number of groups, which are made as equal as possible')
            [CompletionResult]::new('--thresholds', '--thresholds', [CompletionResultType]::ParameterName, 'hlas: service of an average group at which a job goes one level down, rising, such as 5m,10m,20m [default: 5 rounds of the median job, then four times twice as much]')
            [CompletionResult]::new('--promote', '--promote', [CompletionResultType]::ParameterName, 'hlas: a job that has waited for more than so many times its service since its last round goes to the first level [default: never]')
            [CompletionResult]::new('--sharing', '--sharing', [CompletionResultType]::ParameterName, 'hadar: whether each GPU of a job takes an equal part of the batch, as in the paper, or one that fits its speed')
            [CompletionResult]::new('--utility', '--utility', [CompletionResultType]::ParameterName, 'hadar: what finishing is worth: steps per second (throughput), as in the paper, which serves long jobs first, or the time alone over the time from arrival to completion (normalised)')
            [CompletionResult]::new('--worth', '--worth', [CompletionResultType]::ParameterName, 'hadar: what a job pays with: that worth (finish), as in the paper, or what of it a round''s wait costs (delay). The best mean completion times are with --utility normalised --worth delay')
            [CompletionResult]::new('--overhead', '--overhead', [CompletionResultType]::ParameterName, 'hadare: what of every round goes by in reading and merging copies, such as 5s')
            [CompletionResult]::new('--network', '--network', [CompletionResultType]::ParameterName, 'mlf-rl: its net, as hsched train-policy writes it')
            [CompletionResult]::new('--migrate-part', '--migrate-part', [CompletionResultType]::ParameterName, 'The part of the tasks of overloaded GPUs that may be moved away')
            [CompletionResult]::new('--time-unit', '--time-unit', [CompletionResultType]::ParameterName, 'The unit of times in priorities')
            [CompletionResult]::new('--round', '--round', [CompletionResultType]::ParameterName, 'Decide only at multiples of this [default: at every change; hadar and hadare: 6m]')
            [CompletionResult]::new('--rounds', '--rounds', [CompletionResultType]::ParameterName, 'End after so many rounds [a round is then 6m unless told otherwise; of task graphs 1m]')
            [CompletionResult]::new('--restart-cost', '--restart-cost', [CompletionResultType]::ParameterName, 'Time lost by every restart [default: the job key `checkpoint.restart_cost`, else the setting `restart_cost`]')
            [CompletionResult]::new('--lose', '--lose', [CompletionResultType]::ParameterName, 'What a stopped job loses: nothing, or the epoch under way')
            [CompletionResult]::new('--queue-wait', '--queue-wait', [CompletionResultType]::ParameterName, 'Decide as `hsched watch --moves auto` does on a cluster that others use, too: no running job is stopped only to wait, and policies over time do not stop jobs without the key `checkpoint`. Every move waits this long in the queue, such as 0s')
            [CompletionResult]::new('--repack', '--repack', [CompletionResultType]::ParameterName, 'Whether running jobs move to other nodes of the same type so that a job on several nodes comes together on one: no, where there is room, or also where others make room')
            [CompletionResult]::new('--noise', '--noise', [CompletionResultType]::ParameterName, 'Policies see each job''s work off by a random factor between 1 - NOISE and 1 + NOISE')
            [CompletionResult]::new('--job-failures', '--job-failures', [CompletionResultType]::ParameterName, 'Mean time between failures of a running job [default: none fail]')
            [CompletionResult]::new('--node-failures', '--node-failures', [CompletionResultType]::ParameterName, 'Mean time between failures of a node [default: none fail]')
            [CompletionResult]::new('--node-repair', '--node-repair', [CompletionResultType]::ParameterName, 'How long a failed node is down')
            [CompletionResult]::new('--seed', '--seed', [CompletionResultType]::ParameterName, 'Seed of all random choices')
            [CompletionResult]::new('--sweep', '--sweep', [CompletionResultType]::ParameterName, 'Repeat for several values: load=0.5,0.8,1 seed=0..9 restart-cost=0s,60s noise=0,0.3; may be given several times')
            [CompletionResult]::new('--events', '--events', [CompletionResultType]::ParameterName, 'Write all events to this file as JSON lines, policy by policy; - writes them to standard output')
            [CompletionResult]::new('--format', '--format', [CompletionResultType]::ParameterName, 'Output format')
            [CompletionResult]::new('--estimate', '--estimate', [CompletionResultType]::ParameterName, 'Estimate missing speeds, so that jobs may use GPU types that their file does not list and on which their model was never measured: `learnt` from other models measured on both types, `all` also from the job files and the table of GPUs [default: setting `estimate`, off]. The job key `estimate` takes precedence')
            [CompletionResult]::new('--set', '--set', [CompletionResultType]::ParameterName, 'Override a setting for this command; may be given several times (`hsched config show` lists them)')
            [CompletionResult]::new('--gang', '--gang', [CompletionResultType]::ParameterName, 'All tasks of a job get places, or none')
            [CompletionResult]::new('--exclusive', '--exclusive', [CompletionResultType]::ParameterName, 'A task has its GPU for itself')
            [CompletionResult]::new('--bound', '--bound', [CompletionResultType]::ParameterName, 'Compute a lower bound on the mean completion time of any schedule [default: for up to 1000 jobs]')
            [CompletionResult]::new('--no-bound', '--no-bound', [CompletionResultType]::ParameterName, 'Do not compute the lower bound')
            [CompletionResult]::new('--certificate', '--certificate', [CompletionResultType]::ParameterName, 'Add the prices that prove the bound to the JSON, so that anybody can compute it again')
            [CompletionResult]::new('--no-cache', '--no-cache', [CompletionResultType]::ParameterName, 'Use only the speeds of the job file, not measured speeds')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'hsched;trace' {
            [CompletionResult]::new('--set', '--set', [CompletionResultType]::ParameterName, 'Override a setting for this command; may be given several times (`hsched config show` lists them)')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('from-sacct', 'from-sacct', [CompletionResultType]::ParameterValue, 'Convert the output of `sacct -P` or `sacct --json`, so that you can simulate your own last month')
            [CompletionResult]::new('from-philly', 'from-philly', [CompletionResultType]::ParameterValue, 'Convert CSV with the columns `submit_s`, `duration_s` and `num_gpus`, such as the Philly trace')
            [CompletionResult]::new('from-alibaba', 'from-alibaba', [CompletionResultType]::ParameterValue, 'Convert the tasks of Alibaba''s GPU clusters (CSV with `num_gpu`, `gpu_spec`, `submit_s`, `start_s` and `end_s`)')
            [CompletionResult]::new('from-gavel', 'from-gavel', [CompletionResultType]::ParameterValue, 'Convert a trace of Gavel''s, with its table of measured speeds')
            [CompletionResult]::new('from-sia', 'from-sia', [CompletionResultType]::ParameterValue, 'Convert a workload of Sia''s, with its profiles')
            break
        }
        'hsched;trace;from-sacct' {
            [CompletionResult]::new('--type', '--type', [CompletionResultType]::ParameterName, 'The type of GPUs that the accounting does not name')
            [CompletionResult]::new('-o', '-o', [CompletionResultType]::ParameterName, 'Write the trace to this file [default: standard output]')
            [CompletionResult]::new('--output', '--output', [CompletionResultType]::ParameterName, 'Write the trace to this file [default: standard output]')
            [CompletionResult]::new('--set', '--set', [CompletionResultType]::ParameterName, 'Override a setting for this command; may be given several times (`hsched config show` lists them)')
            [CompletionResult]::new('--estimate', '--estimate', [CompletionResultType]::ParameterName, 'Let jobs use other GPU types, at speeds estimated from the table of GPUs (`hsched gpus`)')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'hsched;trace;from-philly' {
            [CompletionResult]::new('--type', '--type', [CompletionResultType]::ParameterName, 'The GPU type on which the jobs run as long as the file says')
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
            [CompletionResult]::new('--throughputs', '--throughputs', [CompletionResultType]::ParameterName, 'Steps per second by job type, scale factor and GPU type: Gavel''s JSON, or CSV')
            [CompletionResult]::new('-o', '-o', [CompletionResultType]::ParameterName, 'Write the trace to this file [default: standard output]')
            [CompletionResult]::new('--output', '--output', [CompletionResultType]::ParameterName, 'Write the trace to this file [default: standard output]')
            [CompletionResult]::new('--set', '--set', [CompletionResultType]::ParameterName, 'Override a setting for this command; may be given several times (`hsched config show` lists them)')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help')
            break
        }
        'hsched;trace;from-sia' {
            [CompletionResult]::new('--profiles', '--profiles', [CompletionResultType]::ParameterName, 'Step times on one GPU: CSV with model, gpu, `local_bsz` and `step_time_s`')
            [CompletionResult]::new('--applications', '--applications', [CompletionResultType]::ParameterName, 'How much each application trains: CSV with application, `samples_per_epoch`, epochs and `model_size_mb`')
            [CompletionResult]::new('--workload', '--workload', [CompletionResultType]::ParameterName, 'Only this workload of a file with columns trace and workload, such as newtrace/1')
            [CompletionResult]::new('-o', '-o', [CompletionResultType]::ParameterName, 'Write the trace to this file [default: standard output]')
            [CompletionResult]::new('--output', '--output', [CompletionResultType]::ParameterName, 'Write the trace to this file [default: standard output]')
            [CompletionResult]::new('--set', '--set', [CompletionResultType]::ParameterName, 'Override a setting for this command; may be given several times (`hsched config show` lists them)')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help')
            break
        }
        'hsched;train-policy' {
            [CompletionResult]::new('--traces', '--traces', [CompletionResultType]::ParameterName, 'Folder of traces: all files .yaml, .yml, .json and .csv in it')
            [CompletionResult]::new('--clusters', '--clusters', [CompletionResultType]::ParameterName, 'Folder of cluster files, .yaml or .yml; the traces are played on them in turn')
            [CompletionResult]::new('-o', '-o', [CompletionResultType]::ParameterName, 'Where the net goes; a file that is there is replaced as a whole')
            [CompletionResult]::new('--output', '--output', [CompletionResultType]::ParameterName, 'Where the net goes; a file that is there is replaced as a whole')
            [CompletionResult]::new('--passes', '--passes', [CompletionResultType]::ParameterName, 'How often the net plays each trace in eight runs of its own; 0 only imitates mlf-h')
            [CompletionResult]::new('--seed', '--seed', [CompletionResultType]::ParameterName, 'Seed of all random choices')
            [CompletionResult]::new('--format', '--format', [CompletionResultType]::ParameterName, 'Output format')
            [CompletionResult]::new('--estimate', '--estimate', [CompletionResultType]::ParameterName, 'Estimate missing speeds, so that jobs may use GPU types that their file does not list and on which their model was never measured: `learnt` from other models measured on both types, `all` also from the job files and the table of GPUs [default: setting `estimate`, off]. The job key `estimate` takes precedence')
            [CompletionResult]::new('--set', '--set', [CompletionResultType]::ParameterName, 'Override a setting for this command; may be given several times (`hsched config show` lists them)')
            [CompletionResult]::new('--dry-run', '--dry-run', [CompletionResultType]::ParameterName, 'Check the traces and clusters, and train and write nothing')
            [CompletionResult]::new('--no-cache', '--no-cache', [CompletionResultType]::ParameterName, 'Use only the speeds of the job file, not measured speeds')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'hsched;check-ddp' {
            [CompletionResult]::new('--python', '--python', [CompletionResultType]::ParameterName, 'Python interpreter that has your torch')
            [CompletionResult]::new('--device', '--device', [CompletionResultType]::ParameterName, 'Device of the ranks; with fewer than four GPUs the ranks share them and use gloo')
            [CompletionResult]::new('--format', '--format', [CompletionResultType]::ParameterName, 'Output format')
            [CompletionResult]::new('--set', '--set', [CompletionResultType]::ParameterName, 'Override a setting for this command; may be given several times (`hsched config show` lists them)')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'hsched;consolidate' {
            [CompletionResult]::new('--output', '--output', [CompletionResultType]::ParameterName, 'Where the merged model goes; a file that is there is replaced as a whole')
            [CompletionResult]::new('--format', '--format', [CompletionResultType]::ParameterName, 'Output format')
            [CompletionResult]::new('--set', '--set', [CompletionResultType]::ParameterName, 'Override a setting for this command; may be given several times (`hsched config show` lists them)')
            [CompletionResult]::new('--dry-run', '--dry-run', [CompletionResultType]::ParameterName, 'Check the files and show what would be merged, and write nothing')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
    })

    $completions.Where{ $_.CompletionText -like "$wordToComplete*" } |
        Sort-Object -Property ListItemText
}
