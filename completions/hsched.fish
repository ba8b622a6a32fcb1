# Print an optspec for argparse to handle cmd's options that are independent of any subcommand.
function __fish_hsched_global_optspecs
    string join \n set= h/help V/version
end

function __fish_hsched_needs_command
    # Figure out if the current invocation already has a command.
    set -l cmd (commandline -opc)
    set -e cmd[1]
    argparse -s (__fish_hsched_global_optspecs) -- $cmd 2>/dev/null
    or return
    if set -q argv[1]
        # Also print the command, so this can be used to figure out what it is.
        echo $argv[1]
        return 1
    end
    return 0
end

function __fish_hsched_using_subcommand
    set -l cmd (__fish_hsched_needs_command)
    test -z "$cmd"
    and return 1
    contains -- $cmd[1] $argv
end

complete -c hsched -n "__fish_hsched_needs_command" -l set -d 'Set a key for this command, over all files and variables (see `hsched config show`)' -r
complete -c hsched -n "__fish_hsched_needs_command" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c hsched -n "__fish_hsched_needs_command" -s V -l version -d 'Print version'
complete -c hsched -n "__fish_hsched_needs_command" -f -a "inventory" -d 'Show the cluster\'s nodes, partitions and GPUs: all, free, used, down, reserved and mine'
complete -c hsched -n "__fish_hsched_needs_command" -f -a "plan" -d 'Plan which GPUs each job gets, and how its batch is split over them'
complete -c hsched -n "__fish_hsched_needs_command" -f -a "submit" -d 'Write a job script for each placed job and give it to sbatch'
complete -c hsched -n "__fish_hsched_needs_command" -f -a "add" -d 'Add jobs for `hsched watch` to place; submits nothing'
complete -c hsched -n "__fish_hsched_needs_command" -f -a "watch" -d 'Follow the jobs: count their epochs, learn their speeds, give free GPUs to those that wait, try again what failed'
complete -c hsched -n "__fish_hsched_needs_command" -f -a "probe" -d 'Measure how fast jobs are on GPU types of which nobody knows, with short jobs of their own commands'
complete -c hsched -n "__fish_hsched_needs_command" -f -a "status" -d 'Show where the jobs stand: GPUs, epochs, predicted and observed times, when they end, what happened last'
complete -c hsched -n "__fish_hsched_needs_command" -f -a "cancel" -d 'Cancel jobs: those that wait end at once, those in Slurm\'s queue are ended by Slurm'
complete -c hsched -n "__fish_hsched_needs_command" -f -a "report" -d 'Report an epoch, from inside a job: for training programs in any language'
complete -c hsched -n "__fish_hsched_needs_command" -f -a "gpus" -d 'Show what is known about GPU models: memory, speed, MIG slices, names'
complete -c hsched -n "__fish_hsched_needs_command" -f -a "cache" -d 'Show, correct and share the measured speeds'
complete -c hsched -n "__fish_hsched_needs_command" -f -a "config" -d 'Show the settings'
complete -c hsched -n "__fish_hsched_needs_command" -f -a "doctor" -d 'Check Slurm, its GPUs, the settings and the state directory, and say what to do'
complete -c hsched -n "__fish_hsched_needs_command" -f -a "init" -d 'Write a job file and a settings file to begin with'
complete -c hsched -n "__fish_hsched_needs_command" -f -a "generate" -d 'Make up a cluster and jobs, to try hsched with or to measure it'
complete -c hsched -n "__fish_hsched_needs_command" -f -a "demo" -d 'See what hsched does: plan, submit, watch, learn and re-plan, on an imagined cluster'
complete -c hsched -n "__fish_hsched_needs_command" -f -a "check-ddp" -d 'Check that your torch trains rightly with unequal ranks'
complete -c hsched -n "__fish_hsched_using_subcommand inventory" -l cluster -d 'Read a cluster file instead of asking Slurm' -r -F
complete -c hsched -n "__fish_hsched_using_subcommand inventory" -l from -d 'Read what somebody saved of a cluster instead of asking Slurm; - reads standard input' -r -F
complete -c hsched -n "__fish_hsched_using_subcommand inventory" -l columns -d 'The format of the table of --from, where it has no header line' -r
complete -c hsched -n "__fish_hsched_using_subcommand inventory" -l format -d 'How to print it' -r -f -a "table\t'For people'
json\t'One JSON value'
yaml\t'A cluster file'"
complete -c hsched -n "__fish_hsched_using_subcommand inventory" -l set -d 'Set a key for this command, over all files and variables (see `hsched config show`)' -r
complete -c hsched -n "__fish_hsched_using_subcommand inventory" -l local -d 'Show this machine\'s own GPUs instead of asking Slurm: types, memory, links, who computes on them'
complete -c hsched -n "__fish_hsched_using_subcommand inventory" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c hsched -n "__fish_hsched_using_subcommand plan" -l format -d 'How to print the plan' -r -f -a "table\t'For people'
json\t'One JSON value'"
complete -c hsched -n "__fish_hsched_using_subcommand plan" -s o -l output -d 'Also write the plan, as JSON, to this file' -r -F
complete -c hsched -n "__fish_hsched_using_subcommand plan" -l compare -d 'Compare policies instead: `all`, or names with commas' -r -f -a "optimal\t''
jps\t''
has\t''
optimus\t''
optimus-lb\t''
exhaustive\t''
all\t''"
complete -c hsched -n "__fish_hsched_using_subcommand plan" -l explain -d 'Say why instead: the GPUs\' prices and all jobs in short, or one job in full' -r
complete -c hsched -n "__fish_hsched_using_subcommand plan" -l cluster -d 'Read a cluster file instead of asking Slurm' -r -F
complete -c hsched -n "__fish_hsched_using_subcommand plan" -l from -d 'Read what somebody saved of a cluster instead of asking Slurm; - reads standard input' -r -F
complete -c hsched -n "__fish_hsched_using_subcommand plan" -l columns -d 'The format of the table of --from, where it has no header line' -r
complete -c hsched -n "__fish_hsched_using_subcommand plan" -l policy -d 'The policy that places jobs. All but optimal use every GPU that the jobs can use' -r -f -a "optimal\t''
jps\t''
has\t''
optimus\t''
optimus-lb\t''
exhaustive\t''"
complete -c hsched -n "__fish_hsched_using_subcommand plan" -l objective -d 'What to minimise' -r -f -a "mean-jct\t''
weighted\t''
makespan\t''"
complete -c hsched -n "__fish_hsched_using_subcommand plan" -l alpha -d 'jps: where its range of categories begins, as a fraction of all' -r
complete -c hsched -n "__fish_hsched_using_subcommand plan" -l beta -d 'jps: weight of speed against fairness' -r
complete -c hsched -n "__fish_hsched_using_subcommand plan" -l samples -d 'jps: how many categories it draws' -r
complete -c hsched -n "__fish_hsched_using_subcommand plan" -l seed -d 'Seed of all random choices' -r
complete -c hsched -n "__fish_hsched_using_subcommand plan" -l capacity -d 'Which GPUs may be used [default: limits where the settings have a capacity table, else free]' -r -f -a "free\t'Those free now, and those that jobs of this plan hold'
up\t'All on nodes that are up'
limits\t'As many of each type as the settings\' capacity table says'"
complete -c hsched -n "__fish_hsched_using_subcommand plan" -l estimate -d 'Also use GPU types that the job file does not list and on which the model was never measured, by estimated speeds: `learnt` from other models that ran on both types, or `all`, also from the job files and the table of GPUs [default: the setting `estimate`, off]. A job\'s own key `estimate` counts before this' -r -f -a "off\t''
learnt\t''
all\t''"
complete -c hsched -n "__fish_hsched_using_subcommand plan" -l budget -d 'End the search after this long and take the best plan so far, such as 10s or 2m [default: 1s for optimal and for bounds, no limit for others]' -r
complete -c hsched -n "__fish_hsched_using_subcommand plan" -l set -d 'Set a key for this command, over all files and variables (see `hsched config show`)' -r
complete -c hsched -n "__fish_hsched_using_subcommand plan" -l use-all -d 'optimal: leave no GPU idle that the jobs can use'
complete -c hsched -n "__fish_hsched_using_subcommand plan" -l pin -d 'Run on the very nodes of the plan, not only on nodes of their kind'
complete -c hsched -n "__fish_hsched_using_subcommand plan" -l no-cache -d 'Plan by the job file\'s speeds alone, not by those measured'
complete -c hsched -n "__fish_hsched_using_subcommand plan" -l no-bound -d 'Do not work out how near the optimum the plan of another policy is'
complete -c hsched -n "__fish_hsched_using_subcommand plan" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c hsched -n "__fish_hsched_using_subcommand submit" -s j -l job -d 'Only this job; may be given several times' -r
complete -c hsched -n "__fish_hsched_using_subcommand submit" -l account -d 'Slurm account' -r
complete -c hsched -n "__fish_hsched_using_subcommand submit" -l partition -d 'Slurm partition' -r
complete -c hsched -n "__fish_hsched_using_subcommand submit" -l qos -d 'Slurm quality of service' -r
complete -c hsched -n "__fish_hsched_using_subcommand submit" -l run-id -d 'Id of this run instead of the time and a random number' -r
complete -c hsched -n "__fish_hsched_using_subcommand submit" -l format -d 'How to print what was submitted' -r -f -a "table\t'For people'
json\t'One JSON value'"
complete -c hsched -n "__fish_hsched_using_subcommand submit" -l cluster -d 'Read a cluster file instead of asking Slurm' -r -F
complete -c hsched -n "__fish_hsched_using_subcommand submit" -l from -d 'Read what somebody saved of a cluster instead of asking Slurm; - reads standard input' -r -F
complete -c hsched -n "__fish_hsched_using_subcommand submit" -l columns -d 'The format of the table of --from, where it has no header line' -r
complete -c hsched -n "__fish_hsched_using_subcommand submit" -l policy -d 'The policy that places jobs. All but optimal use every GPU that the jobs can use' -r -f -a "optimal\t''
jps\t''
has\t''
optimus\t''
optimus-lb\t''
exhaustive\t''"
complete -c hsched -n "__fish_hsched_using_subcommand submit" -l objective -d 'What to minimise' -r -f -a "mean-jct\t''
weighted\t''
makespan\t''"
complete -c hsched -n "__fish_hsched_using_subcommand submit" -l alpha -d 'jps: where its range of categories begins, as a fraction of all' -r
complete -c hsched -n "__fish_hsched_using_subcommand submit" -l beta -d 'jps: weight of speed against fairness' -r
complete -c hsched -n "__fish_hsched_using_subcommand submit" -l samples -d 'jps: how many categories it draws' -r
complete -c hsched -n "__fish_hsched_using_subcommand submit" -l seed -d 'Seed of all random choices' -r
complete -c hsched -n "__fish_hsched_using_subcommand submit" -l capacity -d 'Which GPUs may be used [default: limits where the settings have a capacity table, else free]' -r -f -a "free\t'Those free now, and those that jobs of this plan hold'
up\t'All on nodes that are up'
limits\t'As many of each type as the settings\' capacity table says'"
complete -c hsched -n "__fish_hsched_using_subcommand submit" -l estimate -d 'Also use GPU types that the job file does not list and on which the model was never measured, by estimated speeds: `learnt` from other models that ran on both types, or `all`, also from the job files and the table of GPUs [default: the setting `estimate`, off]. A job\'s own key `estimate` counts before this' -r -f -a "off\t''
learnt\t''
all\t''"
complete -c hsched -n "__fish_hsched_using_subcommand submit" -l budget -d 'End the search after this long and take the best plan so far, such as 10s or 2m [default: 1s for optimal and for bounds, no limit for others]' -r
complete -c hsched -n "__fish_hsched_using_subcommand submit" -l set -d 'Set a key for this command, over all files and variables (see `hsched config show`)' -r
complete -c hsched -n "__fish_hsched_using_subcommand submit" -l dry-run -d 'Print the scripts and submit nothing. A job whose script you give to sbatch yourself is not followed by hsched watch'
complete -c hsched -n "__fish_hsched_using_subcommand submit" -l restart -d 'Begin at the first epoch, whatever was done. Checkpoints stay and are yours to remove: a training that finds one goes on from it'
complete -c hsched -n "__fish_hsched_using_subcommand submit" -l use-all -d 'optimal: leave no GPU idle that the jobs can use'
complete -c hsched -n "__fish_hsched_using_subcommand submit" -l pin -d 'Run on the very nodes of the plan, not only on nodes of their kind'
complete -c hsched -n "__fish_hsched_using_subcommand submit" -l no-cache -d 'Plan by the job file\'s speeds alone, not by those measured'
complete -c hsched -n "__fish_hsched_using_subcommand submit" -l no-bound -d 'Do not work out how near the optimum the plan of another policy is'
complete -c hsched -n "__fish_hsched_using_subcommand submit" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c hsched -n "__fish_hsched_using_subcommand add" -l account -d 'Slurm account' -r
complete -c hsched -n "__fish_hsched_using_subcommand add" -l partition -d 'Slurm partition' -r
complete -c hsched -n "__fish_hsched_using_subcommand add" -l qos -d 'Slurm quality of service' -r
complete -c hsched -n "__fish_hsched_using_subcommand add" -l estimate -d 'Also use GPU types that the job file does not list and on which the model was never measured, by estimated speeds: `learnt` from other models that ran on both types, or `all`, also from the job files and the table of GPUs [default: the setting `estimate`, off]. A job\'s own key `estimate` counts before this' -r -f -a "off\t''
learnt\t''
all\t''"
complete -c hsched -n "__fish_hsched_using_subcommand add" -l format -d 'How to print what was added' -r -f -a "table\t'For people'
json\t'One JSON value'"
complete -c hsched -n "__fish_hsched_using_subcommand add" -l set -d 'Set a key for this command, over all files and variables (see `hsched config show`)' -r
complete -c hsched -n "__fish_hsched_using_subcommand add" -l dry-run -d 'Look at everything, and add nothing'
complete -c hsched -n "__fish_hsched_using_subcommand add" -l restart -d 'Begin at the first epoch, whatever was done. Checkpoints stay and are yours to remove: a training that finds one goes on from it'
complete -c hsched -n "__fish_hsched_using_subcommand add" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c hsched -n "__fish_hsched_using_subcommand watch" -l interval -d 'Time between two looks, such as 30s or 5m' -r
complete -c hsched -n "__fish_hsched_using_subcommand watch" -l moves -d 'Whether running jobs are stopped to go on on better GPUs. With never, free GPUs go to jobs that wait' -r -f -a "never\t''
auto\t''"
complete -c hsched -n "__fish_hsched_using_subcommand watch" -l margin -d 'auto: how far the time saved must exceed what stopping and starting again costs, as a part of that' -r
complete -c hsched -n "__fish_hsched_using_subcommand watch" -l policy -d 'The policy that places jobs. All but optimal use every GPU that the jobs can use' -r -f -a "optimal\t''
jps\t''
has\t''
optimus\t''
optimus-lb\t''
exhaustive\t''"
complete -c hsched -n "__fish_hsched_using_subcommand watch" -l objective -d 'What to minimise' -r -f -a "mean-jct\t''
weighted\t''
makespan\t''"
complete -c hsched -n "__fish_hsched_using_subcommand watch" -l alpha -d 'jps: where its range of categories begins, as a fraction of all' -r
complete -c hsched -n "__fish_hsched_using_subcommand watch" -l beta -d 'jps: weight of speed against fairness' -r
complete -c hsched -n "__fish_hsched_using_subcommand watch" -l samples -d 'jps: how many categories it draws' -r
complete -c hsched -n "__fish_hsched_using_subcommand watch" -l seed -d 'Seed of all random choices' -r
complete -c hsched -n "__fish_hsched_using_subcommand watch" -l estimate -d 'Also use GPU types that the job file does not list and on which the model was never measured, by estimated speeds: `learnt` from other models that ran on both types, or `all`, also from the job files and the table of GPUs [default: the setting `estimate`, off]. A job\'s own key `estimate` counts before this' -r -f -a "off\t''
learnt\t''
all\t''"
complete -c hsched -n "__fish_hsched_using_subcommand watch" -l format -d 'How to print what happens: lines for people, or one JSON object a line with time, job, topic and text' -r -f -a "table\t'For people'
json\t'One JSON value'"
complete -c hsched -n "__fish_hsched_using_subcommand watch" -l budget -d 'End each search after this long and take the best plan so far' -r
complete -c hsched -n "__fish_hsched_using_subcommand watch" -l set -d 'Set a key for this command, over all files and variables (see `hsched config show`)' -r
complete -c hsched -n "__fish_hsched_using_subcommand watch" -l once -d 'Take one turn and end'
complete -c hsched -n "__fish_hsched_using_subcommand watch" -l forever -d 'Go on when all jobs have ended: more may be added'
complete -c hsched -n "__fish_hsched_using_subcommand watch" -l dry-run -d 'Say what would be done and why, and do nothing'
complete -c hsched -n "__fish_hsched_using_subcommand watch" -l queue -d 'Also submit jobs that find no free GPUs: they wait in Slurm\'s queue for GPUs that others hold'
complete -c hsched -n "__fish_hsched_using_subcommand watch" -l pin -d 'Run on the very nodes of the plan, not only on nodes of their kind'
complete -c hsched -n "__fish_hsched_using_subcommand watch" -l use-all -d 'optimal: leave no GPU idle that the jobs can use'
complete -c hsched -n "__fish_hsched_using_subcommand watch" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c hsched -n "__fish_hsched_using_subcommand probe" -s j -l job -d 'Only this job; may be given several times' -r
complete -c hsched -n "__fish_hsched_using_subcommand probe" -l time -d 'The longest that a probe may run, such as 5m; at least a minute' -r
complete -c hsched -n "__fish_hsched_using_subcommand probe" -l format -d 'How to print what was measured' -r -f -a "table\t'For people'
json\t'One JSON value'"
complete -c hsched -n "__fish_hsched_using_subcommand probe" -l set -d 'Set a key for this command, over all files and variables (see `hsched config show`)' -r
complete -c hsched -n "__fish_hsched_using_subcommand probe" -l all -d 'Also types of which only the job file says a speed'
complete -c hsched -n "__fish_hsched_using_subcommand probe" -l dry-run -d 'Say what would be measured, and submit nothing'
complete -c hsched -n "__fish_hsched_using_subcommand probe" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c hsched -n "__fish_hsched_using_subcommand status" -l format -d 'How to print it' -r -f -a "table\t'For people'
json\t'One JSON value'"
complete -c hsched -n "__fish_hsched_using_subcommand status" -l set -d 'Set a key for this command, over all files and variables (see `hsched config show`)' -r
complete -c hsched -n "__fish_hsched_using_subcommand status" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c hsched -n "__fish_hsched_using_subcommand cancel" -l format -d 'How to print what became of the jobs' -r -f -a "table\t'For people'
json\t'One JSON value'"
complete -c hsched -n "__fish_hsched_using_subcommand cancel" -l set -d 'Set a key for this command, over all files and variables (see `hsched config show`)' -r
complete -c hsched -n "__fish_hsched_using_subcommand cancel" -l all -d 'All jobs that have not ended'
complete -c hsched -n "__fish_hsched_using_subcommand cancel" -l dry-run -d 'Say what would be done, and do nothing'
complete -c hsched -n "__fish_hsched_using_subcommand cancel" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c hsched -n "__fish_hsched_using_subcommand report" -l epoch -d 'Number of the epoch that is done, from 1' -r
complete -c hsched -n "__fish_hsched_using_subcommand report" -l compute-s -d 'Seconds that this rank computed in it, without waiting for other ranks' -r
complete -c hsched -n "__fish_hsched_using_subcommand report" -l epoch-s -d 'Seconds that the epoch took' -r
complete -c hsched -n "__fish_hsched_using_subcommand report" -l samples -d 'Samples that this rank trained in it [default: its share by the plan]' -r
complete -c hsched -n "__fish_hsched_using_subcommand report" -l batch -d 'Samples of one step of this rank [default: `HSCHED_LOCAL_BATCH`]' -r
complete -c hsched -n "__fish_hsched_using_subcommand report" -l metric -d 'A figure such as loss=0.7; may be given several times' -r
complete -c hsched -n "__fish_hsched_using_subcommand report" -l set -d 'Set a key for this command, over all files and variables (see `hsched config show`)' -r
complete -c hsched -n "__fish_hsched_using_subcommand report" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c hsched -n "__fish_hsched_using_subcommand gpus" -l format -d 'How to print it' -r -f -a "table\t'For people'
json\t'One JSON value'"
complete -c hsched -n "__fish_hsched_using_subcommand gpus" -l set -d 'Set a key for this command, over all files and variables (see `hsched config show`)' -r
complete -c hsched -n "__fish_hsched_using_subcommand gpus" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c hsched -n "__fish_hsched_using_subcommand cache; and not __fish_seen_subcommand_from show set forget export import" -l set -d 'Set a key for this command, over all files and variables (see `hsched config show`)' -r
complete -c hsched -n "__fish_hsched_using_subcommand cache; and not __fish_seen_subcommand_from show set forget export import" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c hsched -n "__fish_hsched_using_subcommand cache; and not __fish_seen_subcommand_from show set forget export import" -f -a "show" -d 'Show the measured speeds, how sure they are, and where they come from'
complete -c hsched -n "__fish_hsched_using_subcommand cache; and not __fish_seen_subcommand_from show set forget export import" -f -a "set" -d 'Say how fast a model is on a GPU type, until it is measured'
complete -c hsched -n "__fish_hsched_using_subcommand cache; and not __fish_seen_subcommand_from show set forget export import" -f -a "forget" -d 'Forget what is known of a model, on one GPU type or all'
complete -c hsched -n "__fish_hsched_using_subcommand cache; and not __fish_seen_subcommand_from show set forget export import" -f -a "export" -d 'Print all measured speeds, for `hsched cache import`'
complete -c hsched -n "__fish_hsched_using_subcommand cache; and not __fish_seen_subcommand_from show set forget export import" -f -a "import" -d 'Take in the speeds that somebody exported'
complete -c hsched -n "__fish_hsched_using_subcommand cache; and __fish_seen_subcommand_from show" -l format -d 'How to print them' -r -f -a "table\t'For people'
json\t'One JSON value'"
complete -c hsched -n "__fish_hsched_using_subcommand cache; and __fish_seen_subcommand_from show" -l set -d 'Set a key for this command, over all files and variables (see `hsched config show`)' -r
complete -c hsched -n "__fish_hsched_using_subcommand cache; and __fish_seen_subcommand_from show" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c hsched -n "__fish_hsched_using_subcommand cache; and __fish_seen_subcommand_from set" -l precision -d 'The precision of jobs that name one' -r
complete -c hsched -n "__fish_hsched_using_subcommand cache; and __fish_seen_subcommand_from set" -l set -d 'Set a key for this command, over all files and variables (see `hsched config show`)' -r
complete -c hsched -n "__fish_hsched_using_subcommand cache; and __fish_seen_subcommand_from set" -l dry-run -d 'Say what would change, and change nothing'
complete -c hsched -n "__fish_hsched_using_subcommand cache; and __fish_seen_subcommand_from set" -s h -l help -d 'Print help'
complete -c hsched -n "__fish_hsched_using_subcommand cache; and __fish_seen_subcommand_from forget" -l set -d 'Set a key for this command, over all files and variables (see `hsched config show`)' -r
complete -c hsched -n "__fish_hsched_using_subcommand cache; and __fish_seen_subcommand_from forget" -l dry-run -d 'Say what would be forgotten, and change nothing'
complete -c hsched -n "__fish_hsched_using_subcommand cache; and __fish_seen_subcommand_from forget" -s h -l help -d 'Print help'
complete -c hsched -n "__fish_hsched_using_subcommand cache; and __fish_seen_subcommand_from export" -l format -d 'In which form: JSON has everything, CSV is for spreadsheets' -r -f -a "json\t'The state directory\'s own file'
csv\t'A row for each batch size'"
complete -c hsched -n "__fish_hsched_using_subcommand cache; and __fish_seen_subcommand_from export" -l set -d 'Set a key for this command, over all files and variables (see `hsched config show`)' -r
complete -c hsched -n "__fish_hsched_using_subcommand cache; and __fish_seen_subcommand_from export" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c hsched -n "__fish_hsched_using_subcommand cache; and __fish_seen_subcommand_from import" -l set -d 'Set a key for this command, over all files and variables (see `hsched config show`)' -r
complete -c hsched -n "__fish_hsched_using_subcommand cache; and __fish_seen_subcommand_from import" -l dry-run -d 'Say what would change, and change nothing'
complete -c hsched -n "__fish_hsched_using_subcommand cache; and __fish_seen_subcommand_from import" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c hsched -n "__fish_hsched_using_subcommand config; and not __fish_seen_subcommand_from show" -l set -d 'Set a key for this command, over all files and variables (see `hsched config show`)' -r
complete -c hsched -n "__fish_hsched_using_subcommand config; and not __fish_seen_subcommand_from show" -s h -l help -d 'Print help'
complete -c hsched -n "__fish_hsched_using_subcommand config; and not __fish_seen_subcommand_from show" -f -a "show" -d 'Show every setting, its value and where the value comes from'
complete -c hsched -n "__fish_hsched_using_subcommand config; and __fish_seen_subcommand_from show" -l format -d 'How to print them' -r -f -a "table\t'For people'
json\t'One JSON value'"
complete -c hsched -n "__fish_hsched_using_subcommand config; and __fish_seen_subcommand_from show" -l set -d 'Set a key for this command, over all files and variables (see `hsched config show`)' -r
complete -c hsched -n "__fish_hsched_using_subcommand config; and __fish_seen_subcommand_from show" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c hsched -n "__fish_hsched_using_subcommand doctor" -l format -d 'How to print it' -r -f -a "table\t'For people'
json\t'One JSON value'"
complete -c hsched -n "__fish_hsched_using_subcommand doctor" -l set -d 'Set a key for this command, over all files and variables (see `hsched config show`)' -r
complete -c hsched -n "__fish_hsched_using_subcommand doctor" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c hsched -n "__fish_hsched_using_subcommand init" -l cluster -d 'Read a cluster file instead of asking Slurm' -r -F
complete -c hsched -n "__fish_hsched_using_subcommand init" -l from -d 'Read what somebody saved of a cluster instead of asking Slurm; - reads standard input' -r -F
complete -c hsched -n "__fish_hsched_using_subcommand init" -l columns -d 'The format of the table of --from, where it has no header line' -r
complete -c hsched -n "__fish_hsched_using_subcommand init" -l set -d 'Set a key for this command, over all files and variables (see `hsched config show`)' -r
complete -c hsched -n "__fish_hsched_using_subcommand init" -l force -d 'Overwrite files that exist'
complete -c hsched -n "__fish_hsched_using_subcommand init" -l dry-run -d 'Print the files instead of writing them'
complete -c hsched -n "__fish_hsched_using_subcommand init" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c hsched -n "__fish_hsched_using_subcommand generate" -l gpus -d 'GPUs of the cluster' -r
complete -c hsched -n "__fish_hsched_using_subcommand generate" -l gpus-per-node -d 'GPUs of a node; the last node has what remains' -r
complete -c hsched -n "__fish_hsched_using_subcommand generate" -l types -d 'How many GPU types, or which, with commas; others than those above with their speed: v100,l40s=1.4' -r
complete -c hsched -n "__fish_hsched_using_subcommand generate" -l jobs -d 'Jobs to plan' -r
complete -c hsched -n "__fish_hsched_using_subcommand generate" -l sync -d 'When gradients are exchanged' -r -f -a "step\t'After each global batch'
epoch\t'Once an epoch'"
complete -c hsched -n "__fish_hsched_using_subcommand generate" -l network-gbps -d 'Rate between nodes, in Gbit/s' -r
complete -c hsched -n "__fish_hsched_using_subcommand generate" -l intra-node-gbps -d 'Rate between the GPUs of a node, in Gbit/s' -r
complete -c hsched -n "__fish_hsched_using_subcommand generate" -l seed -d 'Seed of all random choices' -r
complete -c hsched -n "__fish_hsched_using_subcommand generate" -l format -d 'How to print what was written' -r -f -a "table\t'For people'
json\t'One JSON value'"
complete -c hsched -n "__fish_hsched_using_subcommand generate" -l set -d 'Set a key for this command, over all files and variables (see `hsched config show`)' -r
complete -c hsched -n "__fish_hsched_using_subcommand generate" -l mixed -d 'Let each node hold two types'
complete -c hsched -n "__fish_hsched_using_subcommand generate" -l rich -d 'Give jobs also fixed step times, limits on GPUs and their types, memory, overlap and weights'
complete -c hsched -n "__fish_hsched_using_subcommand generate" -l force -d 'Write over files that are there'
complete -c hsched -n "__fish_hsched_using_subcommand generate" -l dry-run -d 'Print the files and write nothing'
complete -c hsched -n "__fish_hsched_using_subcommand generate" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c hsched -n "__fish_hsched_using_subcommand demo" -l seed -d 'Seed of the small differences between the ranks\' computing times' -r
complete -c hsched -n "__fish_hsched_using_subcommand demo" -l format -d 'How to print the story' -r -f -a "table\t'For people'
json\t'One JSON value'"
complete -c hsched -n "__fish_hsched_using_subcommand demo" -l set -d 'Set a key for this command, over all files and variables (see `hsched config show`)' -r
complete -c hsched -n "__fish_hsched_using_subcommand demo" -l fast -d 'Do not pause between the lines on a terminal'
complete -c hsched -n "__fish_hsched_using_subcommand demo" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c hsched -n "__fish_hsched_using_subcommand check-ddp" -l python -d 'The Python that has your torch' -r
complete -c hsched -n "__fish_hsched_using_subcommand check-ddp" -l device -d 'Where the ranks compute; with fewer than four GPUs they share them and talk by gloo' -r -f -a "cpu\t''
cuda\t''"
complete -c hsched -n "__fish_hsched_using_subcommand check-ddp" -l format -d 'How to print what came out' -r -f -a "table\t'For people'
json\t'One JSON value'"
complete -c hsched -n "__fish_hsched_using_subcommand check-ddp" -l set -d 'Set a key for this command, over all files and variables (see `hsched config show`)' -r
complete -c hsched -n "__fish_hsched_using_subcommand check-ddp" -s h -l help -d 'Print help (see more with \'--help\')'
