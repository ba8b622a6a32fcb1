
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
            [CompletionResult]::new('--set', '--set', [CompletionResultType]::ParameterName, 'Set a key for this command, over all files and variables (see `hsched config show`)')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('-V', '-V ', [CompletionResultType]::ParameterName, 'Print version')
            [CompletionResult]::new('--version', '--version', [CompletionResultType]::ParameterName, 'Print version')
            [CompletionResult]::new('inventory', 'inventory', [CompletionResultType]::ParameterValue, 'Show the cluster''s nodes, partitions and GPUs: all, free, used, down, reserved and mine')
            [CompletionResult]::new('plan', 'plan', [CompletionResultType]::ParameterValue, 'Plan which GPUs each job gets, and how its batch is split over them')
            [CompletionResult]::new('submit', 'submit', [CompletionResultType]::ParameterValue, 'Write a job script for each placed job and give it to sbatch')
            [CompletionResult]::new('add', 'add', [CompletionResultType]::ParameterValue, 'Add jobs for `hsched watch` to place; submits nothing')
            [CompletionResult]::new('watch', 'watch', [CompletionResultType]::ParameterValue, 'Follow the jobs: count their epochs, learn their speeds, give free GPUs to those that wait, try again what failed')
            [CompletionResult]::new('probe', 'probe', [CompletionResultType]::ParameterValue, 'Measure how fast jobs are on GPU types of which nobody knows, with short jobs of their own commands')
            [CompletionResult]::new('status', 'status', [CompletionResultType]::ParameterValue, 'Show where the jobs stand: GPUs, epochs, predicted and observed times, when they end, what happened last')
            [CompletionResult]::new('cancel', 'cancel', [CompletionResultType]::ParameterValue, 'Cancel jobs: those that wait end at once, those in Slurm''s queue are ended by Slurm')
            [CompletionResult]::new('report', 'report', [CompletionResultType]::ParameterValue, 'Report an epoch, from inside a job: for training programs in any language')
            [CompletionResult]::new('gpus', 'gpus', [CompletionResultType]::ParameterValue, 'Show what is known about GPU models: memory, speed, MIG slices, names')
            [CompletionResult]::new('cache', 'cache', [CompletionResultType]::ParameterValue, 'Show, correct and share the measured speeds')
            [CompletionResult]::new('config', 'config', [CompletionResultType]::ParameterValue, 'Show the settings')
            [CompletionResult]::new('doctor', 'doctor', [CompletionResultType]::ParameterValue, 'Check Slurm, its GPUs, the settings and the state directory, and say what to do')
            [CompletionResult]::new('init', 'init', [CompletionResultType]::ParameterValue, 'Write a job file and a settings file to begin with')
            [CompletionResult]::new('generate', 'generate', [CompletionResultType]::ParameterValue, 'Make up a cluster and jobs, to try hsched with or to measure it')
            [CompletionResult]::new('demo', 'demo', [CompletionResultType]::ParameterValue, 'See what hsched does: plan, submit, watch, learn and re-plan, on an imagined cluster')
            [CompletionResult]::new('check-ddp', 'check-ddp', [CompletionResultType]::ParameterValue, 'Check that your torch trains rightly with unequal ranks')
            break
        }
        'hsched;inventory' {
            [CompletionResult]::new('--cluster', '--cluster', [CompletionResultType]::ParameterName, 'Read a cluster file instead of asking Slurm')
            [CompletionResult]::new('--from', '--from', [CompletionResultType]::ParameterName, 'Read what somebody saved of a cluster instead of asking Slurm; - reads standard input')
            [CompletionResult]::new('--columns', '--columns', [CompletionResultType]::ParameterName, 'The format of the table of --from, where it has no header line')
            [CompletionResult]::new('--format', '--format', [CompletionResultType]::ParameterName, 'How to print it')
            [CompletionResult]::new('--set', '--set', [CompletionResultType]::ParameterName, 'Set a key for this command, over all files and variables (see `hsched config show`)')
            [CompletionResult]::new('--local', '--local', [CompletionResultType]::ParameterName, 'Show this machine''s own GPUs instead of asking Slurm: types, memory, links, who computes on them')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'hsched;plan' {
            [CompletionResult]::new('--format', '--format', [CompletionResultType]::ParameterName, 'How to print the plan')
            [CompletionResult]::new('-o', '-o', [CompletionResultType]::ParameterName, 'Also write the plan, as JSON, to this file')
            [CompletionResult]::new('--output', '--output', [CompletionResultType]::ParameterName, 'Also write the plan, as JSON, to this file')
            [CompletionResult]::new('--compare', '--compare', [CompletionResultType]::ParameterName, 'Compare policies instead: `all`, or names with commas')
            [CompletionResult]::new('--explain', '--explain', [CompletionResultType]::ParameterName, 'Say why instead: the GPUs'' prices and all jobs in short, or one job in full')
            [CompletionResult]::new('--cluster', '--cluster', [CompletionResultType]::ParameterName, 'Read a cluster file instead of asking Slurm')
            [CompletionResult]::new('--from', '--from', [CompletionResultType]::ParameterName, 'Read what somebody saved of a cluster instead of asking Slurm; - reads standard input')
            [CompletionResult]::new('--columns', '--columns', [CompletionResultType]::ParameterName, 'The format of the table of --from, where it has no header line')
            [CompletionResult]::new('--policy', '--policy', [CompletionResultType]::ParameterName, 'The policy that places jobs. All but optimal use every GPU that the jobs can use')
            [CompletionResult]::new('--objective', '--objective', [CompletionResultType]::ParameterName, 'What to minimise')
            [CompletionResult]::new('--alpha', '--alpha', [CompletionResultType]::ParameterName, 'jps: where its range of categories begins, as a fraction of all')
            [CompletionResult]::new('--beta', '--beta', [CompletionResultType]::ParameterName, 'jps: weight of speed against fairness')
            [CompletionResult]::new('--samples', '--samples', [CompletionResultType]::ParameterName, 'jps: how many categories it draws')
            [CompletionResult]::new('--seed', '--seed', [CompletionResultType]::ParameterName, 'Seed of all random choices')
            [CompletionResult]::new('--capacity', '--capacity', [CompletionResultType]::ParameterName, 'Which GPUs may be used [default: limits where the settings have a capacity table, else free]')
            [CompletionResult]::new('--estimate', '--estimate', [CompletionResultType]::ParameterName, 'Also use GPU types that the job file does not list and on which the model was never measured, by estimated speeds: `learnt` from other models that ran on both types, or `all`, also from the job files and the table of GPUs [default: the setting `estimate`, off]. A job''s own key `estimate` counts before this')
            [CompletionResult]::new('--budget', '--budget', [CompletionResultType]::ParameterName, 'End the search after this long and take the best plan so far, such as 10s or 2m [default: 1s for optimal and for bounds, no limit for others]')
            [CompletionResult]::new('--set', '--set', [CompletionResultType]::ParameterName, 'Set a key for this command, over all files and variables (see `hsched config show`)')
            [CompletionResult]::new('--use-all', '--use-all', [CompletionResultType]::ParameterName, 'optimal: leave no GPU idle that the jobs can use')
            [CompletionResult]::new('--pin', '--pin', [CompletionResultType]::ParameterName, 'Run on the very nodes of the plan, not only on nodes of their kind')
            [CompletionResult]::new('--no-cache', '--no-cache', [CompletionResultType]::ParameterName, 'Plan by the job file''s speeds alone, not by those measured')
            [CompletionResult]::new('--no-bound', '--no-bound', [CompletionResultType]::ParameterName, 'Do not work out how near the optimum the plan of another policy is')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'hsched;submit' {
            [CompletionResult]::new('-j', '-j', [CompletionResultType]::ParameterName, 'Only this job; may be given several times')
            [CompletionResult]::new('--job', '--job', [CompletionResultType]::ParameterName, 'Only this job; may be given several times')
            [CompletionResult]::new('--account', '--account', [CompletionResultType]::ParameterName, 'Slurm account')
            [CompletionResult]::new('--partition', '--partition', [CompletionResultType]::ParameterName, 'Slurm partition')
            [CompletionResult]::new('--qos', '--qos', [CompletionResultType]::ParameterName, 'Slurm quality of service')
            [CompletionResult]::new('--run-id', '--run-id', [CompletionResultType]::ParameterName, 'Id of this run instead of the time and a random number')
            [CompletionResult]::new('--format', '--format', [CompletionResultType]::ParameterName, 'How to print what was submitted')
            [CompletionResult]::new('--cluster', '--cluster', [CompletionResultType]::ParameterName, 'Read a cluster file instead of asking Slurm')
            [CompletionResult]::new('--from', '--from', [CompletionResultType]::ParameterName, 'Read what somebody saved of a cluster instead of asking Slurm; - reads standard input')
            [CompletionResult]::new('--columns', '--columns', [CompletionResultType]::ParameterName, 'The format of the table of --from, where it has no header line')
            [CompletionResult]::new('--policy', '--policy', [CompletionResultType]::ParameterName, 'The policy that places jobs. All but optimal use every GPU that the jobs can use')
            [CompletionResult]::new('--objective', '--objective', [CompletionResultType]::ParameterName, 'What to minimise')
            [CompletionResult]::new('--alpha', '--alpha', [CompletionResultType]::ParameterName, 'jps: where its range of categories begins, as a fraction of all')
            [CompletionResult]::new('--beta', '--beta', [CompletionResultType]::ParameterName, 'jps: weight of speed against fairness')
            [CompletionResult]::new('--samples', '--samples', [CompletionResultType]::ParameterName, 'jps: how many categories it draws')
            [CompletionResult]::new('--seed', '--seed', [CompletionResultType]::ParameterName, 'Seed of all random choices')
            [CompletionResult]::new('--capacity', '--capacity', [CompletionResultType]::ParameterName, 'Which GPUs may be used [default: limits where the settings have a capacity table, else free]')
            [CompletionResult]::new('--estimate', '--estimate', [CompletionResultType]::ParameterName, 'Also use GPU types that the job file does not list and on which the model was never measured, by estimated speeds: `learnt` from other models that ran on both types, or `all`, also from the job files and the table of GPUs [default: the setting `estimate`, off]. A job''s own key `estimate` counts before this')
            [CompletionResult]::new('--budget', '--budget', [CompletionResultType]::ParameterName, 'End the search after this long and take the best plan so far, such as 10s or 2m [default: 1s for optimal and for bounds, no limit for others]')
            [CompletionResult]::new('--set', '--set', [CompletionResultType]::ParameterName, 'Set a key for this command, over all files and variables (see `hsched config show`)')
            [CompletionResult]::new('--dry-run', '--dry-run', [CompletionResultType]::ParameterName, 'Print the scripts and submit nothing. A job whose script you give to sbatch yourself is not followed by hsched watch')
            [CompletionResult]::new('--restart', '--restart', [CompletionResultType]::ParameterName, 'Begin at the first epoch, whatever was done. Checkpoints stay and are yours to remove: a training that finds one goes on from it')
            [CompletionResult]::new('--use-all', '--use-all', [CompletionResultType]::ParameterName, 'optimal: leave no GPU idle that the jobs can use')
            [CompletionResult]::new('--pin', '--pin', [CompletionResultType]::ParameterName, 'Run on the very nodes of the plan, not only on nodes of their kind')
            [CompletionResult]::new('--no-cache', '--no-cache', [CompletionResultType]::ParameterName, 'Plan by the job file''s speeds alone, not by those measured')
            [CompletionResult]::new('--no-bound', '--no-bound', [CompletionResultType]::ParameterName, 'Do not work out how near the optimum the plan of another policy is')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'hsched;add' {
            [CompletionResult]::new('--account', '--account', [CompletionResultType]::ParameterName, 'Slurm account')
            [CompletionResult]::new('--partition', '--partition', [CompletionResultType]::ParameterName, 'Slurm partition')
            [CompletionResult]::new('--qos', '--qos', [CompletionResultType]::ParameterName, 'Slurm quality of service')
            [CompletionResult]::new('--estimate', '--estimate', [CompletionResultType]::ParameterName, 'Also use GPU types that the job file does not list and on which the model was never measured, by estimated speeds: `learnt` from other models that ran on both types, or `all`, also from the job files and the table of GPUs [default: the setting `estimate`, off]. A job''s own key `estimate` counts before this')
            [CompletionResult]::new('--format', '--format', [CompletionResultType]::ParameterName, 'How to print what was added')
            [CompletionResult]::new('--set', '--set', [CompletionResultType]::ParameterName, 'Set a key for this command, over all files and variables (see `hsched config show`)')
            [CompletionResult]::new('--dry-run', '--dry-run', [CompletionResultType]::ParameterName, 'Look at everything, and add nothing')
            [CompletionResult]::new('--restart', '--restart', [CompletionResultType]::ParameterName, 'Begin at the first epoch, whatever was done. Checkpoints stay and are yours to remove: a training that finds one goes on from it')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'hsched;watch' {
            [CompletionResult]::new('--interval', '--interval', [CompletionResultType]::ParameterName, 'Time between two looks, such as 30s or 5m')
            [CompletionResult]::new('--moves', '--moves', [CompletionResultType]::ParameterName, 'Whether running jobs are stopped to go on on better GPUs. With never, free GPUs go to jobs that wait')
            [CompletionResult]::new('--margin', '--margin', [CompletionResultType]::ParameterName, 'auto: how far the time saved must exceed what stopping and starting again costs, as a part of that')
            [CompletionResult]::new('--policy', '--policy', [CompletionResultType]::ParameterName, 'The policy that places jobs. All but optimal use every GPU that the jobs can use')
            [CompletionResult]::new('--objective', '--objective', [CompletionResultType]::ParameterName, 'What to minimise')
            [CompletionResult]::new('--alpha', '--alpha', [CompletionResultType]::ParameterName, 'jps: where its range of categories begins, as a fraction of all')
            [CompletionResult]::new('--beta', '--beta', [CompletionResultType]::ParameterName, 'jps: weight of speed against fairness')
            [CompletionResult]::new('--samples', '--samples', [CompletionResultType]::ParameterName, 'jps: how many categories it draws')
            [CompletionResult]::new('--seed', '--seed', [CompletionResultType]::ParameterName, 'Seed of all random choices')
            [CompletionResult]::new('--estimate', '--estimate', [CompletionResultType]::ParameterName, 'Also use GPU types that the job file does not list and on which the model was never measured, by estimated speeds: `learnt` from other models that ran on both types, or `all`, also from the job files and the table of GPUs [default: the setting `estimate`, off]. A job''s own key `estimate` counts before this')
            [CompletionResult]::new('--format', '--format', [CompletionResultType]::ParameterName, 'How to print what happens: lines for people, or one JSON object a line with time, job, topic and text')
            [CompletionResult]::new('--budget', '--budget', [CompletionResultType]::ParameterName, 'End each search after this long and take the best plan so far')
            [CompletionResult]::new('--set', '--set', [CompletionResultType]::ParameterName, 'Set a key for this command, over all files and variables (see `hsched config show`)')
            [CompletionResult]::new('--once', '--once', [CompletionResultType]::ParameterName, 'Take one turn and end')
            [CompletionResult]::new('--forever', '--forever', [CompletionResultType]::ParameterName, 'Go on when all jobs have ended: more may be added')
            [CompletionResult]::new('--dry-run', '--dry-run', [CompletionResultType]::ParameterName, 'Say what would be done and why, and do nothing')
            [CompletionResult]::new('--queue', '--queue', [CompletionResultType]::ParameterName, 'Also submit jobs that find no free GPUs: they wait in Slurm''s queue for GPUs that others hold')
            [CompletionResult]::new('--pin', '--pin', [CompletionResultType]::ParameterName, 'Run on the very nodes of the plan, not only on nodes of their kind')
            [CompletionResult]::new('--use-all', '--use-all', [CompletionResultType]::ParameterName, 'optimal: leave no GPU idle that the jobs can use')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'hsched;probe' {
            [CompletionResult]::new('-j', '-j', [CompletionResultType]::ParameterName, 'Only this job; may be given several times')
            [CompletionResult]::new('--job', '--job', [CompletionResultType]::ParameterName, 'Only this job; may be given several times')
            [CompletionResult]::new('--time', '--time', [CompletionResultType]::ParameterName, 'The longest that a probe may run, such as 5m; at least a minute')
            [CompletionResult]::new('--format', '--format', [CompletionResultType]::ParameterName, 'How to print what was measured')
            [CompletionResult]::new('--set', '--set', [CompletionResultType]::ParameterName, 'Set a key for this command, over all files and variables (see `hsched config show`)')
            [CompletionResult]::new('--all', '--all', [CompletionResultType]::ParameterName, 'Also types of which only the job file says a speed')
            [CompletionResult]::new('--dry-run', '--dry-run', [CompletionResultType]::ParameterName, 'Say what would be measured, and submit nothing')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'hsched;status' {
            [CompletionResult]::new('--format', '--format', [CompletionResultType]::ParameterName, 'How to print it')
            [CompletionResult]::new('--set', '--set', [CompletionResultType]::ParameterName, 'Set a key for this command, over all files and variables (see `hsched config show`)')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'hsched;cancel' {
            [CompletionResult]::new('--format', '--format', [CompletionResultType]::ParameterName, 'How to print what became of the jobs')
            [CompletionResult]::new('--set', '--set', [CompletionResultType]::ParameterName, 'Set a key for this command, over all files and variables (see `hsched config show`)')
            [CompletionResult]::new('--all', '--all', [CompletionResultType]::ParameterName, 'All jobs that have not ended')
            [CompletionResult]::new('--dry-run', '--dry-run', [CompletionResultType]::ParameterName, 'Say what would be done, and do nothing')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'hsched;report' {
            [CompletionResult]::new('--epoch', '--epoch', [CompletionResultType]::ParameterName, 'Number of the epoch that is done, from 1')
            [CompletionResult]::new('--compute-s', '--compute-s', [CompletionResultType]::ParameterName, 'Seconds that this rank computed in it, without waiting for other ranks')
            [CompletionResult]::new('--epoch-s', '--epoch-s', [CompletionResultType]::ParameterName, 'Seconds that the epoch took')
            [CompletionResult]::new('--samples', '--samples', [CompletionResultType]::ParameterName, 'Samples that this rank trained in it [default: its share by the plan]')
            [CompletionResult]::new('--batch', '--batch', [CompletionResultType]::ParameterName, 'Samples of one step of this rank [default: `HSCHED_LOCAL_BATCH`]')
            [CompletionResult]::new('--metric', '--metric', [CompletionResultType]::ParameterName, 'A figure such as loss=0.7; may be given several times')
            [CompletionResult]::new('--set', '--set', [CompletionResultType]::ParameterName, 'Set a key for this command, over all files and variables (see `hsched config show`)')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'hsched;gpus' {
            [CompletionResult]::new('--format', '--format', [CompletionResultType]::ParameterName, 'How to print it')
            [CompletionResult]::new('--set', '--set', [CompletionResultType]::ParameterName, 'Set a key for this command, over all files and variables (see `hsched config show`)')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'hsched;cache' {
            [CompletionResult]::new('--set', '--set', [CompletionResultType]::ParameterName, 'Set a key for this command, over all files and variables (see `hsched config show`)')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('show', 'show', [CompletionResultType]::ParameterValue, 'Show the measured speeds, how sure they are, and where they come from')
            [CompletionResult]::new('set', 'set', [CompletionResultType]::ParameterValue, 'Say how fast a model is on a GPU type, until it is measured')
            [CompletionResult]::new('forget', 'forget', [CompletionResultType]::ParameterValue, 'Forget what is known of a model, on one GPU type or all')
            [CompletionResult]::new('export', 'export', [CompletionResultType]::ParameterValue, 'Print all measured speeds, for `hsched cache import`')
            [CompletionResult]::new('import', 'import', [CompletionResultType]::ParameterValue, 'Take in the speeds that somebody exported')
            break
        }
        'hsched;cache;show' {
            [CompletionResult]::new('--format', '--format', [CompletionResultType]::ParameterName, 'How to print them')
            [CompletionResult]::new('--set', '--set', [CompletionResultType]::ParameterName, 'Set a key for this command, over all files and variables (see `hsched config show`)')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'hsched;cache;set' {
            [CompletionResult]::new('--precision', '--precision', [CompletionResultType]::ParameterName, 'The precision of jobs that name one')
            [CompletionResult]::new('--set', '--set', [CompletionResultType]::ParameterName, 'Set a key for this command, over all files and variables (see `hsched config show`)')
            [CompletionResult]::new('--dry-run', '--dry-run', [CompletionResultType]::ParameterName, 'Say what would change, and change nothing')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help')
            break
        }
        'hsched;cache;forget' {
            [CompletionResult]::new('--set', '--set', [CompletionResultType]::ParameterName, 'Set a key for this command, over all files and variables (see `hsched config show`)')
            [CompletionResult]::new('--dry-run', '--dry-run', [CompletionResultType]::ParameterName, 'Say what would be forgotten, and change nothing')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help')
            break
        }
        'hsched;cache;export' {
            [CompletionResult]::new('--format', '--format', [CompletionResultType]::ParameterName, 'In which form: JSON has everything, CSV is for spreadsheets')
            [CompletionResult]::new('--set', '--set', [CompletionResultType]::ParameterName, 'Set a key for this command, over all files and variables (see `hsched config show`)')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'hsched;cache;import' {
            [CompletionResult]::new('--set', '--set', [CompletionResultType]::ParameterName, 'Set a key for this command, over all files and variables (see `hsched config show`)')
            [CompletionResult]::new('--dry-run', '--dry-run', [CompletionResultType]::ParameterName, 'Say what would change, and change nothing')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'hsched;config' {
            [CompletionResult]::new('--set', '--set', [CompletionResultType]::ParameterName, 'Set a key for this command, over all files and variables (see `hsched config show`)')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help')
            [CompletionResult]::new('show', 'show', [CompletionResultType]::ParameterValue, 'Show every setting, its value and where the value comes from')
            break
        }
        'hsched;config;show' {
            [CompletionResult]::new('--format', '--format', [CompletionResultType]::ParameterName, 'How to print them')
            [CompletionResult]::new('--set', '--set', [CompletionResultType]::ParameterName, 'Set a key for this command, over all files and variables (see `hsched config show`)')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'hsched;doctor' {
            [CompletionResult]::new('--format', '--format', [CompletionResultType]::ParameterName, 'How to print it')
            [CompletionResult]::new('--set', '--set', [CompletionResultType]::ParameterName, 'Set a key for this command, over all files and variables (see `hsched config show`)')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'hsched;init' {
            [CompletionResult]::new('--cluster', '--cluster', [CompletionResultType]::ParameterName, 'Read a cluster file instead of asking Slurm')
            [CompletionResult]::new('--from', '--from', [CompletionResultType]::ParameterName, 'Read what somebody saved of a cluster instead of asking Slurm; - reads standard input')
            [CompletionResult]::new('--columns', '--columns', [CompletionResultType]::ParameterName, 'The format of the table of --from, where it has no header line')
            [CompletionResult]::new('--set', '--set', [CompletionResultType]::ParameterName, 'Set a key for this command, over all files and variables (see `hsched config show`)')
            [CompletionResult]::new('--force', '--force', [CompletionResultType]::ParameterName, 'Overwrite files that exist')
            [CompletionResult]::new('--dry-run', '--dry-run', [CompletionResultType]::ParameterName, 'Print the files instead of writing them')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'hsched;generate' {
            [CompletionResult]::new('--gpus', '--gpus', [CompletionResultType]::ParameterName, 'GPUs of the cluster')
            [CompletionResult]::new('--gpus-per-node', '--gpus-per-node', [CompletionResultType]::ParameterName, 'GPUs of a node; the last node has what remains')
            [CompletionResult]::new('--types', '--types', [CompletionResultType]::ParameterName, 'How many GPU types, or which, with commas; others than those above with their speed: v100,l40s=1.4')
            [CompletionResult]::new('--jobs', '--jobs', [CompletionResultType]::ParameterName, 'Jobs to plan')
            [CompletionResult]::new('--sync', '--sync', [CompletionResultType]::ParameterName, 'When gradients are exchanged')
            [CompletionResult]::new('--network-gbps', '--network-gbps', [CompletionResultType]::ParameterName, 'Rate between nodes, in Gbit/s')
            [CompletionResult]::new('--intra-node-gbps', '--intra-node-gbps', [CompletionResultType]::ParameterName, 'Rate between the GPUs of a node, in Gbit/s')
            [CompletionResult]::new('--seed', '--seed', [CompletionResultType]::ParameterName, 'Seed of all random choices')
            [CompletionResult]::new('--format', '--format', [CompletionResultType]::ParameterName, 'How to print what was written')
            [CompletionResult]::new('--set', '--set', [CompletionResultType]::ParameterName, 'Set a key for this command, over all files and variables (see `hsched config show`)')
            [CompletionResult]::new('--mixed', '--mixed', [CompletionResultType]::ParameterName, 'Let each node hold two types')
            [CompletionResult]::new('--rich', '--rich', [CompletionResultType]::ParameterName, 'Give jobs also fixed step times, limits on GPUs and their types, memory, overlap and weights')
            [CompletionResult]::new('--force', '--force', [CompletionResultType]::ParameterName, 'Write over files that are there')
            [CompletionResult]::new('--dry-run', '--dry-run', [CompletionResultType]::ParameterName, 'Print the files and write nothing')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'hsched;demo' {
            [CompletionResult]::new('--seed', '--seed', [CompletionResultType]::ParameterName, 'Seed of the small differences between the ranks'' computing times')
            [CompletionResult]::new('--format', '--format', [CompletionResultType]::ParameterName, 'How to print the story')
            [CompletionResult]::new('--set', '--set', [CompletionResultType]::ParameterName, 'Set a key for this command, over all files and variables (see `hsched config show`)')
            [CompletionResult]::new('--fast', '--fast', [CompletionResultType]::ParameterName, 'Do not pause between the lines on a terminal')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'hsched;check-ddp' {
            [CompletionResult]::new('--python', '--python', [CompletionResultType]::ParameterName, 'The Python that has your torch')
            [CompletionResult]::new('--device', '--device', [CompletionResultType]::ParameterName, 'Where the ranks compute; with fewer than four GPUs they share them and talk by gloo')
            [CompletionResult]::new('--format', '--format', [CompletionResultType]::ParameterName, 'How to print what came out')
            [CompletionResult]::new('--set', '--set', [CompletionResultType]::ParameterName, 'Set a key for this command, over all files and variables (see `hsched config show`)')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
    })

    $completions.Where{ $_.CompletionText -like "$wordToComplete*" } |
        Sort-Object -Property ListItemText
}
