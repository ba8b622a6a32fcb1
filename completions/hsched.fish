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

complete -c hsched -n "__fish_hsched_needs_command" -l set -d 'Override a setting for this command; may be given several times (`hsched config show` lists them)' -r
complete -c hsched -n "__fish_hsched_needs_command" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c hsched -n "__fish_hsched_needs_command" -s V -l version -d 'Print version'
complete -c hsched -n "__fish_hsched_needs_command" -f -a "inventory" -d 'Show the cluster\'s nodes, partitions and GPUs'
complete -c hsched -n "__fish_hsched_needs_command" -f -a "plan" -d 'Plan which GPUs each job gets and how its batch is split over them'
complete -c hsched -n "__fish_hsched_needs_command" -f -a "when" -d 'Show which request of each job would finish first: wait in the queue and run together'
complete -c hsched -n "__fish_hsched_needs_command" -f -a "run" -d 'Run jobs on the GPUs of this machine, without Slurm'
complete -c hsched -n "__fish_hsched_needs_command" -f -a "submit" -d 'Write a job script for each placed job and submit it with sbatch'
complete -c hsched -n "__fish_hsched_needs_command" -f -a "add" -d 'Add jobs for `hsched watch` to place; submits nothing'
complete -c hsched -n "__fish_hsched_needs_command" -f -a "watch" -d 'Follow the jobs: count epochs, measure speeds, submit waiting jobs to free GPUs, retry failed jobs'
complete -c hsched -n "__fish_hsched_needs_command" -f -a "probe" -d 'Measure the speed of jobs on GPU types without a known speed, with short Slurm jobs'
complete -c hsched -n "__fish_hsched_needs_command" -f -a "status" -d 'Show all jobs: state, GPUs, epochs, predicted and observed epoch times, expected end'
complete -c hsched -n "__fish_hsched_needs_command" -f -a "logs" -d 'Print what a job has printed'
complete -c hsched -n "__fish_hsched_needs_command" -f -a "cancel" -d 'Cancel jobs, waiting or in Slurm\'s queue'
complete -c hsched -n "__fish_hsched_needs_command" -f -a "report" -d 'Report that an epoch is done, from inside a job, for training programs in any language'
complete -c hsched -n "__fish_hsched_needs_command" -f -a "curve" -d 'Predict a metric at the last epoch from a training\'s log, and say whether to go on'
complete -c hsched -n "__fish_hsched_needs_command" -f -a "gpus" -d 'Show known GPU models: memory, speed, MIG slices, names'
complete -c hsched -n "__fish_hsched_needs_command" -f -a "cache" -d 'Show, edit and share the measured speeds'
complete -c hsched -n "__fish_hsched_needs_command" -f -a "config" -d 'Show the settings'
complete -c hsched -n "__fish_hsched_needs_command" -f -a "doctor" -d 'Check Slurm, its GPUs, the settings and the state directory, and say what to do'
complete -c hsched -n "__fish_hsched_needs_command" -f -a "init" -d 'Write a job file and a settings file to start from'
complete -c hsched -n "__fish_hsched_needs_command" -f -a "import" -d 'Make a job file from a batch script'
complete -c hsched -n "__fish_hsched_needs_command" -f -a "generate" -d 'Generate a random cluster and random jobs, to try or benchmark hsched'
complete -c hsched -n "__fish_hsched_needs_command" -f -a "demo" -d 'Show what hsched does on a simulated cluster: plan, submit, watch, measure and re-plan'
complete -c hsched -n "__fish_hsched_needs_command" -f -a "simulate" -d 'Simulate policies on a trace of jobs that come and go: what they would do to your week'
complete -c hsched -n "__fish_hsched_needs_command" -f -a "trace" -d 'Convert what ran on a cluster, or a published trace, into a trace for `hsched simulate`'
complete -c hsched -n "__fish_hsched_needs_command" -f -a "train-policy" -d 'Train a net that chooses who gets GPUs next, for the policy mlf-rl'
complete -c hsched -n "__fish_hsched_needs_command" -f -a "check-ddp" -d 'Check that your version of torch computes correct gradients with unequal local batches'
complete -c hsched -n "__fish_hsched_needs_command" -f -a "consolidate" -d 'Merge the weights of copies that trained apart into one model'
complete -c hsched -n "__fish_hsched_using_subcommand inventory" -l cluster -d 'Read a cluster file instead of asking Slurm' -r -F
complete -c hsched -n "__fish_hsched_using_subcommand inventory" -l from -d 'Read saved Slurm output instead of asking Slurm; - reads standard input' -r -F
complete -c hsched -n "__fish_hsched_using_subcommand inventory" -l columns -d 'Format of a table without a header line given to --from' -r
complete -c hsched -n "__fish_hsched_using_subcommand inventory" -l format -d 'Output format' -r -f -a "table\t'Human-readable tables'
json\t'JSON'
yaml\t'A cluster file (YAML)'"
complete -c hsched -n "__fish_hsched_using_subcommand inventory" -l set -d 'Override a setting for this command; may be given several times (`hsched config show` lists them)' -r
complete -c hsched -n "__fish_hsched_using_subcommand inventory" -l local -d 'Show the GPUs of this machine instead of asking Slurm: types, memory, links, processes'
complete -c hsched -n "__fish_hsched_using_subcommand inventory" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c hsched -n "__fish_hsched_using_subcommand plan" -l format -d 'Output format' -r -f -a "table\t'Human-readable text'
json\t'JSON'"
complete -c hsched -n "__fish_hsched_using_subcommand plan" -s o -l output -d 'Also write the plan to this file, as JSON' -r -F
complete -c hsched -n "__fish_hsched_using_subcommand plan" -l compare -d 'Compare policies instead of printing a plan: `all`, or names separated by commas' -r -f -a "optimal\t''
jps\t''
has\t''
optimus\t''
optimus-lb\t''
exhaustive\t''
all\t''"
complete -c hsched -n "__fish_hsched_using_subcommand plan" -l explain -d 'Explain the plan instead of printing it: prices of the GPUs and all jobs in short, or one job in full. With --queue, the requests of each job that no other beats both in time and in cost' -r
complete -c hsched -n "__fish_hsched_using_subcommand plan" -l snapshot -d 'Read a saved snapshot of a queue instead of asking Slurm; several, one of each cluster, tell which cluster to use' -r -F
complete -c hsched -n "__fish_hsched_using_subcommand plan" -l cost-weight -d 'What one RGU-hour or billing-hour is worth, in hours until the job is done; 0 takes the first to finish, and a cheaper one only where it is done within 5 % or 10 min of it' -r
complete -c hsched -n "__fish_hsched_using_subcommand plan" -l futures -d 'Futures of the queue to look at, unless --budget is over before [default: 60; 24 where jobs are chosen together]' -r
complete -c hsched -n "__fish_hsched_using_subcommand plan" -l cluster -d 'Read a cluster file instead of asking Slurm' -r -F
complete -c hsched -n "__fish_hsched_using_subcommand plan" -l from -d 'Read saved Slurm output instead of asking Slurm; - reads standard input' -r -F
complete -c hsched -n "__fish_hsched_using_subcommand plan" -l columns -d 'Format of a table without a header line given to --from' -r
complete -c hsched -n "__fish_hsched_using_subcommand plan" -l policy -d 'Policy that places the jobs. All but optimal use every GPU that the jobs can use' -r -f -a "optimal\t''
jps\t''
has\t''
optimus\t''
optimus-lb\t''
exhaustive\t''"
complete -c hsched -n "__fish_hsched_using_subcommand plan" -l objective -d 'Objective to minimise' -r -f -a "mean-jct\t''
weighted\t''
makespan\t''
deadlines\t''"
complete -c hsched -n "__fish_hsched_using_subcommand plan" -l alpha -d 'jps: where the sampled range of categories begins, as a fraction of all' -r
complete -c hsched -n "__fish_hsched_using_subcommand plan" -l beta -d 'jps: weight of speed versus fairness' -r
complete -c hsched -n "__fish_hsched_using_subcommand plan" -l samples -d 'jps: number of categories to sample' -r
complete -c hsched -n "__fish_hsched_using_subcommand plan" -l seed -d 'Seed of all random choices' -r
complete -c hsched -n "__fish_hsched_using_subcommand plan" -l capacity -d 'Which GPUs the plan may use [default: limits if the setting `capacity` is set, else free]' -r -f -a "free\t'GPUs that are free now or held by jobs of this plan'
up\t'All GPUs on nodes that are up'
limits\t'As many GPUs of each type as the setting `capacity` says'"
complete -c hsched -n "__fish_hsched_using_subcommand plan" -l estimate -d 'Estimate missing speeds, so that jobs may use GPU types that their file does not list and on which their model was never measured: `learnt` from other models measured on both types, `all` also from the job files and the table of GPUs [default: setting `estimate`, off]. The job key `estimate` takes precedence' -r -f -a "off\t''
learnt\t''
all\t''"
complete -c hsched -n "__fish_hsched_using_subcommand plan" -l budget -d 'Stop the search after this time and use the best plan found so far, such as 10s or 2m [default: 1s for optimal and for lower bounds, unlimited for other policies]' -r
complete -c hsched -n "__fish_hsched_using_subcommand plan" -l set -d 'Override a setting for this command; may be given several times (`hsched config show` lists them)' -r
complete -c hsched -n "__fish_hsched_using_subcommand plan" -l queue -d 'Plan through Slurm\'s queue: which request of each job to make so that all are done soonest on average. Starts are estimated as for `hsched when`, and each chosen request is in the queue of the others'
complete -c hsched -n "__fish_hsched_using_subcommand plan" -l use-all -d 'optimal: use every GPU that the jobs can use'
complete -c hsched -n "__fish_hsched_using_subcommand plan" -l pin -d 'Request exactly the nodes of the plan, not any nodes with the same GPUs'
complete -c hsched -n "__fish_hsched_using_subcommand plan" -l no-cache -d 'Use only the speeds of the job file, not measured speeds'
complete -c hsched -n "__fish_hsched_using_subcommand plan" -l no-bound -d 'Do not compute a lower bound for plans of policies other than optimal'
complete -c hsched -n "__fish_hsched_using_subcommand plan" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c hsched -n "__fish_hsched_using_subcommand when" -l format -d 'Output format' -r -f -a "table\t'Human-readable text'
json\t'JSON'"
complete -c hsched -n "__fish_hsched_using_subcommand when" -l snapshot -d 'Read a saved snapshot of a queue instead of asking Slurm; several, one of each cluster, tell which cluster to use' -r -F
complete -c hsched -n "__fish_hsched_using_subcommand when" -l cost-weight -d 'What one RGU-hour or billing-hour is worth, in hours until the job is done; 0 takes the first to finish, and a cheaper one only where it is done within 5 % or 10 min of it' -r
complete -c hsched -n "__fish_hsched_using_subcommand when" -l futures -d 'Futures of the queue to look at, unless --budget is over before [default: 60; 24 where jobs are chosen together]' -r
complete -c hsched -n "__fish_hsched_using_subcommand when" -l save -d 'Also save the snapshot of the queue to this file, as JSON' -r -F
complete -c hsched -n "__fish_hsched_using_subcommand when" -l seed -d 'Seed of all random choices' -r
complete -c hsched -n "__fish_hsched_using_subcommand when" -l budget -d 'Stop looking at futures after this time, such as 10s or 2m' -r
complete -c hsched -n "__fish_hsched_using_subcommand when" -l estimate -d 'Estimate missing speeds, so that jobs may use GPU types that their file does not list and on which their model was never measured: `learnt` from other models measured on both types, `all` also from the job files and the table of GPUs [default: setting `estimate`, off]. The job key `estimate` takes precedence' -r -f -a "off\t''
learnt\t''
all\t''"
complete -c hsched -n "__fish_hsched_using_subcommand when" -l set -d 'Override a setting for this command; may be given several times (`hsched config show` lists them)' -r
complete -c hsched -n "__fish_hsched_using_subcommand when" -l score -d 'Show instead how right was what `hsched submit --queue` foretold in the last ninety days. Asks Slurm nothing: starts are known from hsched watch'
complete -c hsched -n "__fish_hsched_using_subcommand when" -l no-cache -d 'Use only the speeds of the job file, not measured speeds'
complete -c hsched -n "__fish_hsched_using_subcommand when" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c hsched -n "__fish_hsched_using_subcommand run" -l devices -d 'Imagine these devices, such as cpu:4 or v100:2,t4:2, instead of looking for GPUs. Programs then see no GPU' -r
complete -c hsched -n "__fish_hsched_using_subcommand run" -l policy -d 'Policy that decides who gets which devices, and when jobs make room for others' -r -f -a "horizon\t''
hare\t''
hlas\t''
hlas-p\t''
hadar\t''
fifo\t''
fifo-het\t''
fifo-by-name\t''
yarn-cs\t''
srtf\t''
srsf\t''
las\t''
mlf-h\t''
gavel-max-min\t''
gavel-mtd\t''
gavel-fifo\t''
allox\t''
allox-p\t''
optimal\t''
jps\t''
has\t''
optimus\t''
optimus-lb\t''
exhaustive\t''
mlf-rl\t''"
complete -c hsched -n "__fish_hsched_using_subcommand run" -l sharing -d 'hadar: whether each GPU of a job takes an equal part of the batch, as in the paper, or one that fits its speed' -r -f -a "balanced\t''
equal\t''"
complete -c hsched -n "__fish_hsched_using_subcommand run" -l utility -d 'hadar: what finishing is worth: steps per second (throughput), as in the paper, which serves long jobs first, or the time alone over the time from arrival to completion (normalised)' -r -f -a "throughput\t''
normalised\t''"
complete -c hsched -n "__fish_hsched_using_subcommand run" -l worth -d 'hadar: what a job pays with: that worth (finish), as in the paper, or what of it a round\'s wait costs (delay). The best mean completion times are with --utility normalised --worth delay' -r -f -a "finish\t''
delay\t''"
complete -c hsched -n "__fish_hsched_using_subcommand run" -l network -d 'mlf-rl: its net, as hsched train-policy writes it' -r -F
complete -c hsched -n "__fish_hsched_using_subcommand run" -l objective -d 'Objective to minimise' -r -f -a "mean-jct\t''
weighted\t''
makespan\t''
deadlines\t''"
complete -c hsched -n "__fish_hsched_using_subcommand run" -l alpha -d 'jps: where the sampled range of categories begins, as a fraction of all' -r
complete -c hsched -n "__fish_hsched_using_subcommand run" -l beta -d 'jps: weight of speed versus fairness' -r
complete -c hsched -n "__fish_hsched_using_subcommand run" -l samples -d 'jps: number of categories to sample' -r
complete -c hsched -n "__fish_hsched_using_subcommand run" -l seed -d 'Seed of all random choices' -r
complete -c hsched -n "__fish_hsched_using_subcommand run" -l notify -d 'Command to call when jobs have completed or failed, or will not start by themselves (setting notify). What happened is on its standard input, a line for each job' -r
complete -c hsched -n "__fish_hsched_using_subcommand run" -l estimate -d 'Estimate missing speeds, so that jobs may use GPU types that their file does not list and on which their model was never measured: `learnt` from other models measured on both types, `all` also from the job files and the table of GPUs [default: setting `estimate`, off]. The job key `estimate` takes precedence' -r -f -a "off\t''
learnt\t''
all\t''"
complete -c hsched -n "__fish_hsched_using_subcommand run" -l format -d 'Output format: text, or one JSON object per line with time, job, topic and text' -r -f -a "table\t'Human-readable text'
json\t'JSON'"
complete -c hsched -n "__fish_hsched_using_subcommand run" -l budget -d 'Stop each search after this time and use the best plan found so far' -r
complete -c hsched -n "__fish_hsched_using_subcommand run" -l set -d 'Override a setting for this command; may be given several times (`hsched config show` lists them)' -r
complete -c hsched -n "__fish_hsched_using_subcommand run" -l restart -d 'Start the jobs of JOBS over at the first epoch. Checkpoints are not deleted: remove them, or the training program resumes from them'
complete -c hsched -n "__fish_hsched_using_subcommand run" -l dry-run -d 'Show what would be started and why, without doing it'
complete -c hsched -n "__fish_hsched_using_subcommand run" -l use-all -d 'optimal: use every GPU that the jobs can use'
complete -c hsched -n "__fish_hsched_using_subcommand run" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c hsched -n "__fish_hsched_using_subcommand submit" -s j -l job -d 'Submit only this job; may be given several times' -r
complete -c hsched -n "__fish_hsched_using_subcommand submit" -l account -d 'Slurm account' -r
complete -c hsched -n "__fish_hsched_using_subcommand submit" -l partition -d 'Slurm partition' -r
complete -c hsched -n "__fish_hsched_using_subcommand submit" -l qos -d 'Slurm quality of service' -r
complete -c hsched -n "__fish_hsched_using_subcommand submit" -l race -d 'Queue so many of these requests of each job: the first to start trains, the others leave the queue or end at once. More than 1 implies --queue' -r
complete -c hsched -n "__fish_hsched_using_subcommand submit" -l cost-weight -d 'What one RGU-hour or billing-hour is worth, in hours until the job is done; 0 takes the first to finish, and a cheaper one only where it is done within 5 % or 10 min of it' -r
complete -c hsched -n "__fish_hsched_using_subcommand submit" -l futures -d 'Futures of the queue to look at, unless --budget is over before [default: 60; 24 where jobs are chosen together]' -r
complete -c hsched -n "__fish_hsched_using_subcommand submit" -l run-id -d 'Id of this run [default: the time and a random number]' -r
complete -c hsched -n "__fish_hsched_using_subcommand submit" -l format -d 'Output format' -r -f -a "table\t'Human-readable text'
json\t'JSON'"
complete -c hsched -n "__fish_hsched_using_subcommand submit" -l gpus -d 'With --together: the GPUs of each node, such as v100:4 or v100:2,t4:2' -r
complete -c hsched -n "__fish_hsched_using_subcommand submit" -l nodes -d 'With --together: the number of nodes' -r
complete -c hsched -n "__fish_hsched_using_subcommand submit" -l time -d 'With --together: how long the allocation lasts, such as 12h' -r
complete -c hsched -n "__fish_hsched_using_subcommand submit" -l cluster -d 'Read a cluster file instead of asking Slurm' -r -F
complete -c hsched -n "__fish_hsched_using_subcommand submit" -l from -d 'Read saved Slurm output instead of asking Slurm; - reads standard input' -r -F
complete -c hsched -n "__fish_hsched_using_subcommand submit" -l columns -d 'Format of a table without a header line given to --from' -r
complete -c hsched -n "__fish_hsched_using_subcommand submit" -l objective -d 'Objective to minimise' -r -f -a "mean-jct\t''
weighted\t''
makespan\t''
deadlines\t''"
complete -c hsched -n "__fish_hsched_using_subcommand submit" -l alpha -d 'jps: where the sampled range of categories begins, as a fraction of all' -r
complete -c hsched -n "__fish_hsched_using_subcommand submit" -l beta -d 'jps: weight of speed versus fairness' -r
complete -c hsched -n "__fish_hsched_using_subcommand submit" -l samples -d 'jps: number of categories to sample' -r
complete -c hsched -n "__fish_hsched_using_subcommand submit" -l seed -d 'Seed of all random choices' -r
complete -c hsched -n "__fish_hsched_using_subcommand submit" -l capacity -d 'Which GPUs the plan may use [default: limits if the setting `capacity` is set, else free]' -r -f -a "free\t'GPUs that are free now or held by jobs of this plan'
up\t'All GPUs on nodes that are up'
limits\t'As many GPUs of each type as the setting `capacity` says'"
complete -c hsched -n "__fish_hsched_using_subcommand submit" -l estimate -d 'Estimate missing speeds, so that jobs may use GPU types that their file does not list and on which their model was never measured: `learnt` from other models measured on both types, `all` also from the job files and the table of GPUs [default: setting `estimate`, off]. The job key `estimate` takes precedence' -r -f -a "off\t''
learnt\t''
all\t''"
complete -c hsched -n "__fish_hsched_using_subcommand submit" -l budget -d 'Stop the search after this time and use the best plan found so far, such as 10s or 2m [default: 1s for optimal and for lower bounds, unlimited for other policies]' -r
complete -c hsched -n "__fish_hsched_using_subcommand submit" -l policy -d 'Policy that places the jobs. All but optimal use every GPU that the jobs can use. With --together, the policy of hsched run, which may also decide over time [default with --together: horizon]' -r -f -a "horizon\t''
hare\t''
hlas\t''
hlas-p\t''
hadar\t''
fifo\t''
fifo-het\t''
fifo-by-name\t''
yarn-cs\t''
srtf\t''
srsf\t''
las\t''
mlf-h\t''
gavel-max-min\t''
gavel-mtd\t''
gavel-fifo\t''
allox\t''
allox-p\t''
optimal\t''
jps\t''
has\t''
optimus\t''
optimus-lb\t''
exhaustive\t''"
complete -c hsched -n "__fish_hsched_using_subcommand submit" -l set -d 'Override a setting for this command; may be given several times (`hsched config show` lists them)' -r
complete -c hsched -n "__fish_hsched_using_subcommand submit" -l dry-run -d 'Print the scripts and submit nothing. If you submit a script yourself, `hsched watch` does not follow that job'
complete -c hsched -n "__fish_hsched_using_subcommand submit" -l restart -d 'Start over at the first epoch. Checkpoints are not deleted: remove them, or the training program resumes from them'
complete -c hsched -n "__fish_hsched_using_subcommand submit" -l queue -d 'Submit what `hsched plan --queue` chooses: for each job the GPUs, account, partition and time limit with which all are done soonest on average, wait in the queue and run together'
complete -c hsched -n "__fish_hsched_using_subcommand submit" -l together -d 'Submit one Slurm job in which hsched run runs all jobs, instead of one for each'
complete -c hsched -n "__fish_hsched_using_subcommand submit" -l use-all -d 'optimal: use every GPU that the jobs can use'
complete -c hsched -n "__fish_hsched_using_subcommand submit" -l pin -d 'Request exactly the nodes of the plan, not any nodes with the same GPUs'
complete -c hsched -n "__fish_hsched_using_subcommand submit" -l no-cache -d 'Use only the speeds of the job file, not measured speeds'
complete -c hsched -n "__fish_hsched_using_subcommand submit" -l no-bound -d 'Do not compute a lower bound for plans of policies other than optimal'
complete -c hsched -n "__fish_hsched_using_subcommand submit" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c hsched -n "__fish_hsched_using_subcommand add" -l account -d 'Slurm account' -r
complete -c hsched -n "__fish_hsched_using_subcommand add" -l partition -d 'Slurm partition' -r
complete -c hsched -n "__fish_hsched_using_subcommand add" -l qos -d 'Slurm quality of service' -r
complete -c hsched -n "__fish_hsched_using_subcommand add" -l estimate -d 'Estimate missing speeds, so that jobs may use GPU types that their file does not list and on which their model was never measured: `learnt` from other models measured on both types, `all` also from the job files and the table of GPUs [default: setting `estimate`, off]. The job key `estimate` takes precedence' -r -f -a "off\t''
learnt\t''
all\t''"
complete -c hsched -n "__fish_hsched_using_subcommand add" -l policy -d 'Policy that places the jobs. All but optimal use every GPU that the jobs can use' -r -f -a "optimal\t''
jps\t''
has\t''
optimus\t''
optimus-lb\t''
exhaustive\t''"
complete -c hsched -n "__fish_hsched_using_subcommand add" -l objective -d 'Objective to minimise' -r -f -a "mean-jct\t''
weighted\t''
makespan\t''
deadlines\t''"
complete -c hsched -n "__fish_hsched_using_subcommand add" -l alpha -d 'jps: where the sampled range of categories begins, as a fraction of all' -r
complete -c hsched -n "__fish_hsched_using_subcommand add" -l beta -d 'jps: weight of speed versus fairness' -r
complete -c hsched -n "__fish_hsched_using_subcommand add" -l samples -d 'jps: number of categories to sample' -r
complete -c hsched -n "__fish_hsched_using_subcommand add" -l seed -d 'Seed of all random choices' -r
complete -c hsched -n "__fish_hsched_using_subcommand add" -l format -d 'Output format' -r -f -a "table\t'Human-readable text'
json\t'JSON'"
complete -c hsched -n "__fish_hsched_using_subcommand add" -l set -d 'Override a setting for this command; may be given several times (`hsched config show` lists them)' -r
complete -c hsched -n "__fish_hsched_using_subcommand add" -l dry-run -d 'Show what would be added, and add nothing'
complete -c hsched -n "__fish_hsched_using_subcommand add" -l restart -d 'Start over at the first epoch. Checkpoints are not deleted: remove them, or the training program resumes from them'
complete -c hsched -n "__fish_hsched_using_subcommand add" -l use-all -d 'optimal: use every GPU that the jobs can use'
complete -c hsched -n "__fish_hsched_using_subcommand add" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c hsched -n "__fish_hsched_using_subcommand watch" -l interval -d 'Time between two turns, such as 30s or 5m' -r
complete -c hsched -n "__fish_hsched_using_subcommand watch" -l moves -d 'Whether to stop running jobs to move them to better GPUs. With never, free GPUs only go to waiting jobs' -r -f -a "never\t''
auto\t''"
complete -c hsched -n "__fish_hsched_using_subcommand watch" -l race -r
complete -c hsched -n "__fish_hsched_using_subcommand watch" -l margin -d 'auto: move a job only if the time saved exceeds the cost of the restart by this fraction of the cost' -r
complete -c hsched -n "__fish_hsched_using_subcommand watch" -l notify -d 'Command to call when jobs have completed or failed, or will not start by themselves (setting notify). What happened is on its standard input, a line for each job' -r
complete -c hsched -n "__fish_hsched_using_subcommand watch" -l objective -d 'Objective to minimise' -r -f -a "mean-jct\t''
weighted\t''
makespan\t''
deadlines\t''"
complete -c hsched -n "__fish_hsched_using_subcommand watch" -l alpha -d 'jps: where the sampled range of categories begins, as a fraction of all' -r
complete -c hsched -n "__fish_hsched_using_subcommand watch" -l beta -d 'jps: weight of speed versus fairness' -r
complete -c hsched -n "__fish_hsched_using_subcommand watch" -l samples -d 'jps: number of categories to sample' -r
complete -c hsched -n "__fish_hsched_using_subcommand watch" -l seed -d 'Seed of all random choices' -r
complete -c hsched -n "__fish_hsched_using_subcommand watch" -l sharing -d 'hadar: whether each GPU of a job takes an equal part of the batch, as in the paper, or one that fits its speed' -r -f -a "balanced\t''
equal\t''"
complete -c hsched -n "__fish_hsched_using_subcommand watch" -l utility -d 'hadar: what finishing is worth: steps per second (throughput), as in the paper, which serves long jobs first, or the time alone over the time from arrival to completion (normalised)' -r -f -a "throughput\t''
normalised\t''"
complete -c hsched -n "__fish_hsched_using_subcommand watch" -l worth -d 'hadar: what a job pays with: that worth (finish), as in the paper, or what of it a round\'s wait costs (delay). The best mean completion times are with --utility normalised --worth delay' -r -f -a "finish\t''
delay\t''"
complete -c hsched -n "__fish_hsched_using_subcommand watch" -l network -d 'mlf-rl: its net, as hsched train-policy writes it' -r -F
complete -c hsched -n "__fish_hsched_using_subcommand watch" -l estimate -d 'Estimate missing speeds, so that jobs may use GPU types that their file does not list and on which their model was never measured: `learnt` from other models measured on both types, `all` also from the job files and the table of GPUs [default: setting `estimate`, off]. The job key `estimate` takes precedence' -r -f -a "off\t''
learnt\t''
all\t''"
complete -c hsched -n "__fish_hsched_using_subcommand watch" -l format -d 'Output format: text, or one JSON object per line with time, job, topic and text' -r -f -a "table\t'Human-readable text'
json\t'JSON'"
complete -c hsched -n "__fish_hsched_using_subcommand watch" -l budget -d 'Stop each search after this time and use the best plan found so far' -r
complete -c hsched -n "__fish_hsched_using_subcommand watch" -l policy -d 'Policy that places the jobs. All but optimal use every GPU that the jobs can use' -r -f -a "optimal\t''
jps\t''
has\t''
optimus\t''
optimus-lb\t''
exhaustive\t''
horizon\t''
hare\t''
hlas\t''
hlas-p\t''
hadar\t''
mlf-h\t''
mlf-rl\t''"
complete -c hsched -n "__fish_hsched_using_subcommand watch" -l set -d 'Override a setting for this command; may be given several times (`hsched config show` lists them)' -r
complete -c hsched -n "__fish_hsched_using_subcommand watch" -l once -d 'Run one turn and exit'
complete -c hsched -n "__fish_hsched_using_subcommand watch" -l forever -d 'Keep running when all jobs have ended, for jobs that are added later'
complete -c hsched -n "__fish_hsched_using_subcommand watch" -l dry-run -d 'Show what would be done and why, without doing it'
complete -c hsched -n "__fish_hsched_using_subcommand watch" -l queue -d 'Also submit jobs that find no free GPUs, or are done sooner on others: they wait in Slurm\'s queue'
complete -c hsched -n "__fish_hsched_using_subcommand watch" -l pin -d 'Request exactly the nodes of the plan, not any nodes with the same GPUs'
complete -c hsched -n "__fish_hsched_using_subcommand watch" -l use-all -d 'optimal: use every GPU that the jobs can use'
complete -c hsched -n "__fish_hsched_using_subcommand watch" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c hsched -n "__fish_hsched_using_subcommand probe" -s j -l job -d 'Probe only this job; may be given several times' -r
complete -c hsched -n "__fish_hsched_using_subcommand probe" -l time -d 'Time limit of a probe, such as 5m; at least one minute' -r
complete -c hsched -n "__fish_hsched_using_subcommand probe" -l format -d 'Output format' -r -f -a "table\t'Human-readable text'
json\t'JSON'"
complete -c hsched -n "__fish_hsched_using_subcommand probe" -l set -d 'Override a setting for this command; may be given several times (`hsched config show` lists them)' -r
complete -c hsched -n "__fish_hsched_using_subcommand probe" -l all -d 'Also probe GPU types whose speed is known only from the job file'
complete -c hsched -n "__fish_hsched_using_subcommand probe" -l dry-run -d 'Show what would be measured, and submit nothing'
complete -c hsched -n "__fish_hsched_using_subcommand probe" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c hsched -n "__fish_hsched_using_subcommand status" -l format -d 'Output format' -r -f -a "table\t'Human-readable text'
json\t'JSON'"
complete -c hsched -n "__fish_hsched_using_subcommand status" -l set -d 'Override a setting for this command; may be given several times (`hsched config show` lists them)' -r
complete -c hsched -n "__fish_hsched_using_subcommand status" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c hsched -n "__fish_hsched_using_subcommand logs" -l tail -d 'Print only the last lines; with --follow, begin with them' -r
complete -c hsched -n "__fish_hsched_using_subcommand logs" -l run -d 'Print the output of this run (`hsched status JOB` lists them)' -r
complete -c hsched -n "__fish_hsched_using_subcommand logs" -l attempt -d 'Print the output of this submission, counted from 1' -r
complete -c hsched -n "__fish_hsched_using_subcommand logs" -l set -d 'Override a setting for this command; may be given several times (`hsched config show` lists them)' -r
complete -c hsched -n "__fish_hsched_using_subcommand logs" -s f -l follow -d 'Keep printing as the output grows, over moves and retries, until the job has ended'
complete -c hsched -n "__fish_hsched_using_subcommand logs" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c hsched -n "__fish_hsched_using_subcommand cancel" -l format -d 'Output format' -r -f -a "table\t'Human-readable text'
json\t'JSON'"
complete -c hsched -n "__fish_hsched_using_subcommand cancel" -l set -d 'Override a setting for this command; may be given several times (`hsched config show` lists them)' -r
complete -c hsched -n "__fish_hsched_using_subcommand cancel" -l all -d 'All jobs that have not ended'
complete -c hsched -n "__fish_hsched_using_subcommand cancel" -l dry-run -d 'Show what would be cancelled, and cancel nothing'
complete -c hsched -n "__fish_hsched_using_subcommand cancel" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c hsched -n "__fish_hsched_using_subcommand report" -l epoch -d 'Number of the finished epoch, from 1' -r
complete -c hsched -n "__fish_hsched_using_subcommand report" -l compute-s -d 'Seconds that this rank computed in the epoch, without waiting for other ranks' -r
complete -c hsched -n "__fish_hsched_using_subcommand report" -l epoch-s -d 'Seconds that the epoch took' -r
complete -c hsched -n "__fish_hsched_using_subcommand report" -l samples -d 'Samples that this rank trained in the epoch [default: its share in the plan]' -r
complete -c hsched -n "__fish_hsched_using_subcommand report" -l batch -d 'Local batch of this rank [default: `HSCHED_LOCAL_BATCH`]' -r
complete -c hsched -n "__fish_hsched_using_subcommand report" -l metric -d 'A metric such as loss=0.7; may be given several times' -r
complete -c hsched -n "__fish_hsched_using_subcommand report" -l set -d 'Override a setting for this command; may be given several times (`hsched config show` lists them)' -r
complete -c hsched -n "__fish_hsched_using_subcommand report" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c hsched -n "__fish_hsched_using_subcommand curve" -l history -d 'The same, by name' -r -F
complete -c hsched -n "__fish_hsched_using_subcommand curve" -l metric -d 'Metric to look at [default: the only one, else the loss]' -r
complete -c hsched -n "__fish_hsched_using_subcommand curve" -l mode -d 'Whether the metric should fall or rise [default: min for a loss or an error, else max]' -r -f -a "min\t''
max\t''"
complete -c hsched -n "__fish_hsched_using_subcommand curve" -l epochs -d 'Epochs of the whole training [default: twice those of the log]' -r
complete -c hsched -n "__fish_hsched_using_subcommand curve" -l target -d 'Value that is enough' -r
complete -c hsched -n "__fish_hsched_using_subcommand curve" -l rule -d 'Rule by which to stop [default: target where one is given, else best]' -r -f -a "epochs\t''
best\t''
target\t''"
complete -c hsched -n "__fish_hsched_using_subcommand curve" -l patience -d 'Stop when so many epochs have brought nothing better' -r
complete -c hsched -n "__fish_hsched_using_subcommand curve" -l confidence -d 'How certain a prediction must be' -r
complete -c hsched -n "__fish_hsched_using_subcommand curve" -l tolerance -d 'What counts as better, in the metric\'s unit [default: 0.02 of the range seen]' -r
complete -c hsched -n "__fish_hsched_using_subcommand curve" -l svg -d 'Also write a picture to this file, as SVG' -r -F
complete -c hsched -n "__fish_hsched_using_subcommand curve" -l format -d 'Output format' -r -f -a "table\t'Human-readable text'
json\t'JSON'"
complete -c hsched -n "__fish_hsched_using_subcommand curve" -l set -d 'Override a setting for this command; may be given several times (`hsched config show` lists them)' -r
complete -c hsched -n "__fish_hsched_using_subcommand curve" -l give-up -d 'Also stop when the target is out of reach'
complete -c hsched -n "__fish_hsched_using_subcommand curve" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c hsched -n "__fish_hsched_using_subcommand gpus" -l format -d 'Output format' -r -f -a "table\t'Human-readable text'
json\t'JSON'"
complete -c hsched -n "__fish_hsched_using_subcommand gpus" -l set -d 'Override a setting for this command; may be given several times (`hsched config show` lists them)' -r
complete -c hsched -n "__fish_hsched_using_subcommand gpus" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c hsched -n "__fish_hsched_using_subcommand cache; and not __fish_seen_subcommand_from show set forget export import" -l set -d 'Override a setting for this command; may be given several times (`hsched config show` lists them)' -r
complete -c hsched -n "__fish_hsched_using_subcommand cache; and not __fish_seen_subcommand_from show set forget export import" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c hsched -n "__fish_hsched_using_subcommand cache; and not __fish_seen_subcommand_from show set forget export import" -f -a "show" -d 'Show the measured speeds with their errors and sources'
complete -c hsched -n "__fish_hsched_using_subcommand cache; and not __fish_seen_subcommand_from show set forget export import" -f -a "set" -d 'Set the speed of a model on a GPU type, until it is measured'
complete -c hsched -n "__fish_hsched_using_subcommand cache; and not __fish_seen_subcommand_from show set forget export import" -f -a "forget" -d 'Delete the speeds of a model, on one GPU type or all'
complete -c hsched -n "__fish_hsched_using_subcommand cache; and not __fish_seen_subcommand_from show set forget export import" -f -a "export" -d 'Print all measured speeds, for `hsched cache import`'
complete -c hsched -n "__fish_hsched_using_subcommand cache; and not __fish_seen_subcommand_from show set forget export import" -f -a "import" -d 'Import speeds that somebody exported'
complete -c hsched -n "__fish_hsched_using_subcommand cache; and __fish_seen_subcommand_from show" -l format -d 'Output format' -r -f -a "table\t'Human-readable text'
json\t'JSON'"
complete -c hsched -n "__fish_hsched_using_subcommand cache; and __fish_seen_subcommand_from show" -l set -d 'Override a setting for this command; may be given several times (`hsched config show` lists them)' -r
complete -c hsched -n "__fish_hsched_using_subcommand cache; and __fish_seen_subcommand_from show" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c hsched -n "__fish_hsched_using_subcommand cache; and __fish_seen_subcommand_from set" -l precision -d 'Precision, for jobs that set the key `precision`' -r
complete -c hsched -n "__fish_hsched_using_subcommand cache; and __fish_seen_subcommand_from set" -l format -d 'Output format' -r -f -a "table\t'Human-readable text'
json\t'JSON'"
complete -c hsched -n "__fish_hsched_using_subcommand cache; and __fish_seen_subcommand_from set" -l set -d 'Override a setting for this command; may be given several times (`hsched config show` lists them)' -r
complete -c hsched -n "__fish_hsched_using_subcommand cache; and __fish_seen_subcommand_from set" -l dry-run -d 'Show what would change, and change nothing'
complete -c hsched -n "__fish_hsched_using_subcommand cache; and __fish_seen_subcommand_from set" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c hsched -n "__fish_hsched_using_subcommand cache; and __fish_seen_subcommand_from forget" -l format -d 'Output format' -r -f -a "table\t'Human-readable text'
json\t'JSON'"
complete -c hsched -n "__fish_hsched_using_subcommand cache; and __fish_seen_subcommand_from forget" -l set -d 'Override a setting for this command; may be given several times (`hsched config show` lists them)' -r
complete -c hsched -n "__fish_hsched_using_subcommand cache; and __fish_seen_subcommand_from forget" -l dry-run -d 'Show what would be deleted, and change nothing'
complete -c hsched -n "__fish_hsched_using_subcommand cache; and __fish_seen_subcommand_from forget" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c hsched -n "__fish_hsched_using_subcommand cache; and __fish_seen_subcommand_from export" -l format -d 'Output format: JSON is complete, CSV is for spreadsheets' -r -f -a "json\t'The format of the state directory'
csv\t'One row per batch size'"
complete -c hsched -n "__fish_hsched_using_subcommand cache; and __fish_seen_subcommand_from export" -l set -d 'Override a setting for this command; may be given several times (`hsched config show` lists them)' -r
complete -c hsched -n "__fish_hsched_using_subcommand cache; and __fish_seen_subcommand_from export" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c hsched -n "__fish_hsched_using_subcommand cache; and __fish_seen_subcommand_from import" -l format -d 'Output format' -r -f -a "table\t'Human-readable text'
json\t'JSON'"
complete -c hsched -n "__fish_hsched_using_subcommand cache; and __fish_seen_subcommand_from import" -l set -d 'Override a setting for this command; may be given several times (`hsched config show` lists them)' -r
complete -c hsched -n "__fish_hsched_using_subcommand cache; and __fish_seen_subcommand_from import" -l dry-run -d 'Show what would change, and change nothing'
complete -c hsched -n "__fish_hsched_using_subcommand cache; and __fish_seen_subcommand_from import" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c hsched -n "__fish_hsched_using_subcommand config; and not __fish_seen_subcommand_from show" -l set -d 'Override a setting for this command; may be given several times (`hsched config show` lists them)' -r
complete -c hsched -n "__fish_hsched_using_subcommand config; and not __fish_seen_subcommand_from show" -s h -l help -d 'Print help'
complete -c hsched -n "__fish_hsched_using_subcommand config; and not __fish_seen_subcommand_from show" -f -a "show" -d 'Show every setting, its value and its source'
complete -c hsched -n "__fish_hsched_using_subcommand config; and __fish_seen_subcommand_from show" -l format -d 'Output format' -r -f -a "table\t'Human-readable text'
json\t'JSON'"
complete -c hsched -n "__fish_hsched_using_subcommand config; and __fish_seen_subcommand_from show" -l set -d 'Override a setting for this command; may be given several times (`hsched config show` lists them)' -r
complete -c hsched -n "__fish_hsched_using_subcommand config; and __fish_seen_subcommand_from show" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c hsched -n "__fish_hsched_using_subcommand doctor" -l restore -d 'Go on from the state in this file: state.json, state.json.old or journal in the state directory, or the path of a copy of one of them' -r -F
complete -c hsched -n "__fish_hsched_using_subcommand doctor" -l format -d 'Output format' -r -f -a "table\t'Human-readable text'
json\t'JSON'"
complete -c hsched -n "__fish_hsched_using_subcommand doctor" -l set -d 'Override a setting for this command; may be given several times (`hsched config show` lists them)' -r
complete -c hsched -n "__fish_hsched_using_subcommand doctor" -l dry-run -d 'Only show what --restore would do'
complete -c hsched -n "__fish_hsched_using_subcommand doctor" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c hsched -n "__fish_hsched_using_subcommand init" -l cluster -d 'Read a cluster file instead of asking Slurm' -r -F
complete -c hsched -n "__fish_hsched_using_subcommand init" -l from -d 'Read saved Slurm output instead of asking Slurm; - reads standard input' -r -F
complete -c hsched -n "__fish_hsched_using_subcommand init" -l columns -d 'Format of a table without a header line given to --from' -r
complete -c hsched -n "__fish_hsched_using_subcommand init" -l set -d 'Override a setting for this command; may be given several times (`hsched config show` lists them)' -r
complete -c hsched -n "__fish_hsched_using_subcommand init" -l force -d 'Overwrite existing files'
complete -c hsched -n "__fish_hsched_using_subcommand init" -l dry-run -d 'Print the files instead of writing them'
complete -c hsched -n "__fish_hsched_using_subcommand init" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c hsched -n "__fish_hsched_using_subcommand import" -s o -l output -d 'Write to this file, which must not exist, instead of stdout' -r -F
complete -c hsched -n "__fish_hsched_using_subcommand import" -l format -d 'Output format; JSON has no comments' -r -f -a "yaml\t'A job file with comments'
json\t'A job file in JSON'"
complete -c hsched -n "__fish_hsched_using_subcommand import" -l set -d 'Override a setting for this command; may be given several times (`hsched config show` lists them)' -r
complete -c hsched -n "__fish_hsched_using_subcommand import" -l dry-run -d 'Print the job file, and write none'
complete -c hsched -n "__fish_hsched_using_subcommand import" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c hsched -n "__fish_hsched_using_subcommand generate; and not __fish_seen_subcommand_from trace" -l gpus -d 'Number of GPUs in the cluster' -r
complete -c hsched -n "__fish_hsched_using_subcommand generate; and not __fish_seen_subcommand_from trace" -l gpus-per-node -d 'GPUs per node; the last node gets the remainder' -r
complete -c hsched -n "__fish_hsched_using_subcommand generate; and not __fish_seen_subcommand_from trace" -l types -d 'Number of GPU types, or their names separated by commas; types not listed above need a speed: v100,l40s=1.4' -r
complete -c hsched -n "__fish_hsched_using_subcommand generate; and not __fish_seen_subcommand_from trace" -l jobs -d 'Number of jobs' -r
complete -c hsched -n "__fish_hsched_using_subcommand generate; and not __fish_seen_subcommand_from trace" -l sync -d 'When gradients are exchanged' -r -f -a "step\t'After each global batch'
epoch\t'Once per epoch'"
complete -c hsched -n "__fish_hsched_using_subcommand generate; and not __fish_seen_subcommand_from trace" -l network-gbps -d 'Bandwidth between nodes, in Gbit/s' -r
complete -c hsched -n "__fish_hsched_using_subcommand generate; and not __fish_seen_subcommand_from trace" -l intra-node-gbps -d 'Bandwidth between the GPUs of a node, in Gbit/s' -r
complete -c hsched -n "__fish_hsched_using_subcommand generate; and not __fish_seen_subcommand_from trace" -l seed -d 'Random seed' -r
complete -c hsched -n "__fish_hsched_using_subcommand generate; and not __fish_seen_subcommand_from trace" -l format -d 'Output format' -r -f -a "table\t'Human-readable text'
json\t'JSON'"
complete -c hsched -n "__fish_hsched_using_subcommand generate; and not __fish_seen_subcommand_from trace" -l set -d 'Override a setting for this command; may be given several times (`hsched config show` lists them)' -r
complete -c hsched -n "__fish_hsched_using_subcommand generate; and not __fish_seen_subcommand_from trace" -l mixed -d 'Put two GPU types into each node'
complete -c hsched -n "__fish_hsched_using_subcommand generate; and not __fish_seen_subcommand_from trace" -l rich -d 'Also generate fixed step costs, limits on GPU counts and types, memory limits, overlap and weights'
complete -c hsched -n "__fish_hsched_using_subcommand generate; and not __fish_seen_subcommand_from trace" -l force -d 'Overwrite existing files'
complete -c hsched -n "__fish_hsched_using_subcommand generate; and not __fish_seen_subcommand_from trace" -l dry-run -d 'Print the files and write nothing'
complete -c hsched -n "__fish_hsched_using_subcommand generate; and not __fish_seen_subcommand_from trace" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c hsched -n "__fish_hsched_using_subcommand generate; and not __fish_seen_subcommand_from trace" -a "trace" -d 'Generate a random trace for `hsched simulate`, after the rules of published studies'
complete -c hsched -n "__fish_hsched_using_subcommand generate; and __fish_seen_subcommand_from trace" -l rules -d 'Rules by which jobs are made' -r -f -a "gavel\t'Gavel\'s'
paper\t'Those of the TPDS 2024 paper'
heavy-tails\t'Heavy tails'
hare\t'Those of Hare and HLAS'"
complete -c hsched -n "__fish_hsched_using_subcommand generate; and __fish_seen_subcommand_from trace" -l throughputs -d 'Gavel\'s table of steps per second (its JSON, or CSV), for --rules gavel' -r -F
complete -c hsched -n "__fish_hsched_using_subcommand generate; and __fish_seen_subcommand_from trace" -l types -d 'GPU types for --rules heavy-tails: a number, or names separated by commas; types without a known speed need one: v100,l40s=1.4' -r
complete -c hsched -n "__fish_hsched_using_subcommand generate; and __fish_seen_subcommand_from trace" -l no-faster-than -d 'Make no GPU type faster than this one, for --rules gavel: most of Gavel\'s published figures were made so, with v100' -r
complete -c hsched -n "__fish_hsched_using_subcommand generate; and __fish_seen_subcommand_from trace" -l sync -d 'When gradients are exchanged, for --rules paper' -r -f -a "step\t'After each global batch'
epoch\t'Once per epoch'"
complete -c hsched -n "__fish_hsched_using_subcommand generate; and __fish_seen_subcommand_from trace" -l jobs -d 'Number of jobs' -r
complete -c hsched -n "__fish_hsched_using_subcommand generate; and __fish_seen_subcommand_from trace" -l gap -d 'Mean time between arrivals' -r
complete -c hsched -n "__fish_hsched_using_subcommand generate; and __fish_seen_subcommand_from trace" -l recorded -d 'Take arrivals, lengths and numbers of GPUs from CSV with `submit_s`, `duration_s` and `num_gpus`, such as the Philly trace' -r -F
complete -c hsched -n "__fish_hsched_using_subcommand generate; and __fish_seen_subcommand_from trace" -l load -d 'Move arrivals apart or together so that the jobs ask for this part of the cluster' -r
complete -c hsched -n "__fish_hsched_using_subcommand generate; and __fish_seen_subcommand_from trace" -l cluster -d 'Read a cluster file instead of asking Slurm' -r -F
complete -c hsched -n "__fish_hsched_using_subcommand generate; and __fish_seen_subcommand_from trace" -l from -d 'Read saved Slurm output instead of asking Slurm; - reads standard input' -r -F
complete -c hsched -n "__fish_hsched_using_subcommand generate; and __fish_seen_subcommand_from trace" -l columns -d 'Format of a table without a header line given to --from' -r
complete -c hsched -n "__fish_hsched_using_subcommand generate; and __fish_seen_subcommand_from trace" -l seed -d 'Random seed' -r
complete -c hsched -n "__fish_hsched_using_subcommand generate; and __fish_seen_subcommand_from trace" -s o -l output -d 'Write the trace to this file [default: standard output]' -r -F
complete -c hsched -n "__fish_hsched_using_subcommand generate; and __fish_seen_subcommand_from trace" -l set -d 'Override a setting for this command; may be given several times (`hsched config show` lists them)' -r
complete -c hsched -n "__fish_hsched_using_subcommand generate; and __fish_seen_subcommand_from trace" -l single-gpu -d 'Give every job of --rules gavel one GPU'
complete -c hsched -n "__fish_hsched_using_subcommand generate; and __fish_seen_subcommand_from trace" -l mouldable -d 'Let jobs run on other numbers of GPUs than they ask for'
complete -c hsched -n "__fish_hsched_using_subcommand generate; and __fish_seen_subcommand_from trace" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c hsched -n "__fish_hsched_using_subcommand demo" -l seed -d 'Seed of the small random differences between the compute times of ranks' -r
complete -c hsched -n "__fish_hsched_using_subcommand demo" -l format -d 'Output format' -r -f -a "table\t'Human-readable text'
json\t'JSON'"
complete -c hsched -n "__fish_hsched_using_subcommand demo" -l set -d 'Override a setting for this command; may be given several times (`hsched config show` lists them)' -r
complete -c hsched -n "__fish_hsched_using_subcommand demo" -l fast -d 'Do not pause between lines'
complete -c hsched -n "__fish_hsched_using_subcommand demo" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c hsched -n "__fish_hsched_using_subcommand simulate" -l trace -d 'Trace: a job file (YAML or JSON) or CSV; - reads standard input' -r -F
complete -c hsched -n "__fish_hsched_using_subcommand simulate" -l cluster -d 'Read a cluster file instead of asking Slurm' -r -F
complete -c hsched -n "__fish_hsched_using_subcommand simulate" -l from -d 'Read saved Slurm output instead of asking Slurm; - reads standard input' -r -F
complete -c hsched -n "__fish_hsched_using_subcommand simulate" -l columns -d 'Format of a table without a header line given to --from' -r
complete -c hsched -n "__fish_hsched_using_subcommand simulate" -l policy -d 'Policies, separated by commas. Those that `hsched plan` has place all jobs again whenever one comes or goes' -r -f -a "horizon\t''
hare\t''
hlas\t''
hlas-p\t''
hadar\t''
fifo\t''
fifo-het\t''
fifo-by-name\t''
yarn-cs\t''
srtf\t''
srsf\t''
las\t''
mlf-h\t''
gavel-max-min\t''
gavel-mtd\t''
gavel-fifo\t''
allox\t''
allox-p\t''
optimal\t''
jps\t''
has\t''
optimus\t''
optimus-lb\t''
exhaustive\t''
hadare\t''
mlf-rl\t''"
complete -c hsched -n "__fish_hsched_using_subcommand simulate" -l objective -d 'What to minimise, for the policies of `hsched plan` and for hadare (mean-jct: jobs that are near to their end take the nodes that they need for it; makespan: the job that ends last gets the next node). All others have an objective of their own' -r -f -a "mean-jct\t''
weighted\t''
makespan\t''
deadlines\t''"
complete -c hsched -n "__fish_hsched_using_subcommand simulate" -l execution -d 'Whether each task computes alone, at any time, as in the papers, or all GPUs of a job together, as on a cluster' -r -f -a "tasks\t'A GPU for one task'
gangs\t'All GPUs of the job, for whole epochs'"
complete -c hsched -n "__fish_hsched_using_subcommand simulate" -l assign -d 'hare: whether a task goes to the GPU that is free first (available), on which it ends first (finish), or also into time between earlier tasks (insert)' -r -f -a "available\t''
finish\t''
insert\t''"
complete -c hsched -n "__fish_hsched_using_subcommand simulate" -l groups -d 'hlas: which GPUs are given out together: gpus (each alone), nodes (those of a node), or the number of groups, which are made as equal as possible' -r
complete -c hsched -n "__fish_hsched_using_subcommand simulate" -l thresholds -d 'hlas: service of an average group at which a job goes one level down, rising, such as 5m,10m,20m [default: 5 rounds of the median job, then four times twice as much]' -r
complete -c hsched -n "__fish_hsched_using_subcommand simulate" -l promote -d 'hlas: a job that has waited for more than so many times its service since its last round goes to the first level [default: never]' -r
complete -c hsched -n "__fish_hsched_using_subcommand simulate" -l sharing -d 'hadar: whether each GPU of a job takes an equal part of the batch, as in the paper, or one that fits its speed' -r -f -a "balanced\t''
equal\t''"
complete -c hsched -n "__fish_hsched_using_subcommand simulate" -l utility -d 'hadar: what finishing is worth: steps per second (throughput), as in the paper, which serves long jobs first, or the time alone over the time from arrival to completion (normalised)' -r -f -a "throughput\t''
normalised\t''"
complete -c hsched -n "__fish_hsched_using_subcommand simulate" -l worth -d 'hadar: what a job pays with: that worth (finish), as in the paper, or what of it a round\'s wait costs (delay). The best mean completion times are with --utility normalised --worth delay' -r -f -a "finish\t''
delay\t''"
complete -c hsched -n "__fish_hsched_using_subcommand simulate" -l overhead -d 'hadare: what of every round goes by in reading and merging copies, such as 5s' -r
complete -c hsched -n "__fish_hsched_using_subcommand simulate" -l network -d 'mlf-rl: its net, as hsched train-policy writes it' -r -F
complete -c hsched -n "__fish_hsched_using_subcommand simulate" -l migrate-part -d 'The part of the tasks of overloaded GPUs that may be moved away' -r
complete -c hsched -n "__fish_hsched_using_subcommand simulate" -l time-unit -d 'The unit of times in priorities' -r
complete -c hsched -n "__fish_hsched_using_subcommand simulate" -l round -d 'Decide only at multiples of this [default: at every change; hadar and hadare: 6m]' -r
complete -c hsched -n "__fish_hsched_using_subcommand simulate" -l rounds -d 'End after so many rounds [a round is then 6m unless told otherwise; of task graphs 1m]' -r
complete -c hsched -n "__fish_hsched_using_subcommand simulate" -l restart-cost -d 'Time lost by every restart [default: the job key `checkpoint.restart_cost`, else the setting `restart_cost`]' -r
complete -c hsched -n "__fish_hsched_using_subcommand simulate" -l lose -d 'What a stopped job loses: nothing, or the epoch under way' -r -f -a "nothing\t''
epoch\t''"
complete -c hsched -n "__fish_hsched_using_subcommand simulate" -l queue-wait -d 'Decide as `hsched watch --moves auto` does on a cluster that others use, too: no running job is stopped only to wait, and policies over time do not stop jobs without the key `checkpoint`. Every move waits this long in the queue, such as 0s' -r
complete -c hsched -n "__fish_hsched_using_subcommand simulate" -l repack -d 'Whether running jobs move to other nodes of the same type so that a job on several nodes comes together on one: no, where there is room, or also where others make room' -r -f -a "off\t''
gather\t''
full\t''"
complete -c hsched -n "__fish_hsched_using_subcommand simulate" -l noise -d 'Policies see each job\'s work off by a random factor between 1 - NOISE and 1 + NOISE' -r
complete -c hsched -n "__fish_hsched_using_subcommand simulate" -l job-failures -d 'Mean time between failures of a running job [default: none fail]' -r
complete -c hsched -n "__fish_hsched_using_subcommand simulate" -l node-failures -d 'Mean time between failures of a node [default: none fail]' -r
complete -c hsched -n "__fish_hsched_using_subcommand simulate" -l node-repair -d 'How long a failed node is down' -r
complete -c hsched -n "__fish_hsched_using_subcommand simulate" -l seed -d 'Seed of all random choices' -r
complete -c hsched -n "__fish_hsched_using_subcommand simulate" -l sweep -d 'Repeat for several values: load=0.5,0.8,1 seed=0..9 restart-cost=0s,60s noise=0,0.3; may be given several times' -r
complete -c hsched -n "__fish_hsched_using_subcommand simulate" -l events -d 'Write all events to this file as JSON lines, policy by policy; - writes them to standard output' -r -F
complete -c hsched -n "__fish_hsched_using_subcommand simulate" -l format -d 'Output format' -r -f -a "table\t'A table with pictures'
json\t'JSON'
csv\t'CSV, a line for each run'"
complete -c hsched -n "__fish_hsched_using_subcommand simulate" -l estimate -d 'Estimate missing speeds, so that jobs may use GPU types that their file does not list and on which their model was never measured: `learnt` from other models measured on both types, `all` also from the job files and the table of GPUs [default: setting `estimate`, off]. The job key `estimate` takes precedence' -r -f -a "off\t''
learnt\t''
all\t''"
complete -c hsched -n "__fish_hsched_using_subcommand simulate" -l set -d 'Override a setting for this command; may be given several times (`hsched config show` lists them)' -r
complete -c hsched -n "__fish_hsched_using_subcommand simulate" -l gang -d 'All tasks of a job get places, or none'
complete -c hsched -n "__fish_hsched_using_subcommand simulate" -l exclusive -d 'A task has its GPU for itself'
complete -c hsched -n "__fish_hsched_using_subcommand simulate" -l bound -d 'Compute a lower bound on the mean completion time of any schedule [default: for up to 1000 jobs]'
complete -c hsched -n "__fish_hsched_using_subcommand simulate" -l no-bound -d 'Do not compute the lower bound'
complete -c hsched -n "__fish_hsched_using_subcommand simulate" -l certificate -d 'Add the prices that prove the bound to the JSON, so that anybody can compute it again'
complete -c hsched -n "__fish_hsched_using_subcommand simulate" -l no-cache -d 'Use only the speeds of the job file, not measured speeds'
complete -c hsched -n "__fish_hsched_using_subcommand simulate" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c hsched -n "__fish_hsched_using_subcommand trace; and not __fish_seen_subcommand_from from-sacct from-philly from-alibaba from-gavel from-sia" -l set -d 'Override a setting for this command; may be given several times (`hsched config show` lists them)' -r
complete -c hsched -n "__fish_hsched_using_subcommand trace; and not __fish_seen_subcommand_from from-sacct from-philly from-alibaba from-gavel from-sia" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c hsched -n "__fish_hsched_using_subcommand trace; and not __fish_seen_subcommand_from from-sacct from-philly from-alibaba from-gavel from-sia" -f -a "from-sacct" -d 'Convert the output of `sacct -P` or `sacct --json`, so that you can simulate your own last month'
complete -c hsched -n "__fish_hsched_using_subcommand trace; and not __fish_seen_subcommand_from from-sacct from-philly from-alibaba from-gavel from-sia" -f -a "from-philly" -d 'Convert CSV with the columns `submit_s`, `duration_s` and `num_gpus`, such as the Philly trace'
complete -c hsched -n "__fish_hsched_using_subcommand trace; and not __fish_seen_subcommand_from from-sacct from-philly from-alibaba from-gavel from-sia" -f -a "from-alibaba" -d 'Convert the tasks of Alibaba\'s GPU clusters (CSV with `num_gpu`, `gpu_spec`, `submit_s`, `start_s` and `end_s`)'
complete -c hsched -n "__fish_hsched_using_subcommand trace; and not __fish_seen_subcommand_from from-sacct from-philly from-alibaba from-gavel from-sia" -f -a "from-gavel" -d 'Convert a trace of Gavel\'s, with its table of measured speeds'
complete -c hsched -n "__fish_hsched_using_subcommand trace; and not __fish_seen_subcommand_from from-sacct from-philly from-alibaba from-gavel from-sia" -f -a "from-sia" -d 'Convert a workload of Sia\'s, with its profiles'
complete -c hsched -n "__fish_hsched_using_subcommand trace; and __fish_seen_subcommand_from from-sacct" -l type -d 'The type of GPUs that the accounting does not name' -r
complete -c hsched -n "__fish_hsched_using_subcommand trace; and __fish_seen_subcommand_from from-sacct" -s o -l output -d 'Write the trace to this file [default: standard output]' -r -F
complete -c hsched -n "__fish_hsched_using_subcommand trace; and __fish_seen_subcommand_from from-sacct" -l set -d 'Override a setting for this command; may be given several times (`hsched config show` lists them)' -r
complete -c hsched -n "__fish_hsched_using_subcommand trace; and __fish_seen_subcommand_from from-sacct" -l estimate -d 'Let jobs use other GPU types, at speeds estimated from the table of GPUs (`hsched gpus`)'
complete -c hsched -n "__fish_hsched_using_subcommand trace; and __fish_seen_subcommand_from from-sacct" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c hsched -n "__fish_hsched_using_subcommand trace; and __fish_seen_subcommand_from from-philly" -l type -d 'The GPU type on which the jobs run as long as the file says' -r
complete -c hsched -n "__fish_hsched_using_subcommand trace; and __fish_seen_subcommand_from from-philly" -s o -l output -d 'Write the trace to this file [default: standard output]' -r -F
complete -c hsched -n "__fish_hsched_using_subcommand trace; and __fish_seen_subcommand_from from-philly" -l set -d 'Override a setting for this command; may be given several times (`hsched config show` lists them)' -r
complete -c hsched -n "__fish_hsched_using_subcommand trace; and __fish_seen_subcommand_from from-philly" -l estimate -d 'Let jobs use other GPU types, at speeds estimated from the table of GPUs (`hsched gpus`)'
complete -c hsched -n "__fish_hsched_using_subcommand trace; and __fish_seen_subcommand_from from-philly" -s h -l help -d 'Print help'
complete -c hsched -n "__fish_hsched_using_subcommand trace; and __fish_seen_subcommand_from from-alibaba" -s o -l output -d 'Write the trace to this file [default: standard output]' -r -F
complete -c hsched -n "__fish_hsched_using_subcommand trace; and __fish_seen_subcommand_from from-alibaba" -l set -d 'Override a setting for this command; may be given several times (`hsched config show` lists them)' -r
complete -c hsched -n "__fish_hsched_using_subcommand trace; and __fish_seen_subcommand_from from-alibaba" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c hsched -n "__fish_hsched_using_subcommand trace; and __fish_seen_subcommand_from from-gavel" -l throughputs -d 'Steps per second by job type, scale factor and GPU type: Gavel\'s JSON, or CSV' -r -F
complete -c hsched -n "__fish_hsched_using_subcommand trace; and __fish_seen_subcommand_from from-gavel" -s o -l output -d 'Write the trace to this file [default: standard output]' -r -F
complete -c hsched -n "__fish_hsched_using_subcommand trace; and __fish_seen_subcommand_from from-gavel" -l set -d 'Override a setting for this command; may be given several times (`hsched config show` lists them)' -r
complete -c hsched -n "__fish_hsched_using_subcommand trace; and __fish_seen_subcommand_from from-gavel" -s h -l help -d 'Print help'
complete -c hsched -n "__fish_hsched_using_subcommand trace; and __fish_seen_subcommand_from from-sia" -l profiles -d 'Step times on one GPU: CSV with model, gpu, `local_bsz` and `step_time_s`' -r -F
complete -c hsched -n "__fish_hsched_using_subcommand trace; and __fish_seen_subcommand_from from-sia" -l applications -d 'How much each application trains: CSV with application, `samples_per_epoch`, epochs and `model_size_mb`' -r -F
complete -c hsched -n "__fish_hsched_using_subcommand trace; and __fish_seen_subcommand_from from-sia" -l workload -d 'Only this workload of a file with columns trace and workload, such as newtrace/1' -r
complete -c hsched -n "__fish_hsched_using_subcommand trace; and __fish_seen_subcommand_from from-sia" -s o -l output -d 'Write the trace to this file [default: standard output]' -r -F
complete -c hsched -n "__fish_hsched_using_subcommand trace; and __fish_seen_subcommand_from from-sia" -l set -d 'Override a setting for this command; may be given several times (`hsched config show` lists them)' -r
complete -c hsched -n "__fish_hsched_using_subcommand trace; and __fish_seen_subcommand_from from-sia" -s h -l help -d 'Print help'
complete -c hsched -n "__fish_hsched_using_subcommand train-policy" -l traces -d 'Folder of traces: all files .yaml, .yml, .json and .csv in it' -r -F
complete -c hsched -n "__fish_hsched_using_subcommand train-policy" -l clusters -d 'Folder of cluster files, .yaml or .yml; the traces are played on them in turn' -r -F
complete -c hsched -n "__fish_hsched_using_subcommand train-policy" -s o -l output -d 'Where the net goes; a file that is there is replaced as a whole' -r -F
complete -c hsched -n "__fish_hsched_using_subcommand train-policy" -l passes -d 'How often the net plays each trace in eight runs of its own; 0 only imitates mlf-h' -r
complete -c hsched -n "__fish_hsched_using_subcommand train-policy" -l seed -d 'Seed of all random choices' -r
complete -c hsched -n "__fish_hsched_using_subcommand train-policy" -l format -d 'Output format' -r -f -a "table\t'Human-readable text'
json\t'JSON'"
complete -c hsched -n "__fish_hsched_using_subcommand train-policy" -l estimate -d 'Estimate missing speeds, so that jobs may use GPU types that their file does not list and on which their model was never measured: `learnt` from other models measured on both types, `all` also from the job files and the table of GPUs [default: setting `estimate`, off]. The job key `estimate` takes precedence' -r -f -a "off\t''
learnt\t''
all\t''"
complete -c hsched -n "__fish_hsched_using_subcommand train-policy" -l set -d 'Override a setting for this command; may be given several times (`hsched config show` lists them)' -r
complete -c hsched -n "__fish_hsched_using_subcommand train-policy" -l dry-run -d 'Check the traces and clusters, and train and write nothing'
complete -c hsched -n "__fish_hsched_using_subcommand train-policy" -l no-cache -d 'Use only the speeds of the job file, not measured speeds'
complete -c hsched -n "__fish_hsched_using_subcommand train-policy" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c hsched -n "__fish_hsched_using_subcommand check-ddp" -l python -d 'Python interpreter that has your torch' -r
complete -c hsched -n "__fish_hsched_using_subcommand check-ddp" -l device -d 'Device of the ranks; with fewer than four GPUs the ranks share them and use gloo' -r -f -a "cpu\t''
cuda\t''"
complete -c hsched -n "__fish_hsched_using_subcommand check-ddp" -l format -d 'Output format' -r -f -a "table\t'Human-readable text'
json\t'JSON'"
complete -c hsched -n "__fish_hsched_using_subcommand check-ddp" -l set -d 'Override a setting for this command; may be given several times (`hsched config show` lists them)' -r
complete -c hsched -n "__fish_hsched_using_subcommand check-ddp" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c hsched -n "__fish_hsched_using_subcommand consolidate" -l output -d 'Where the merged model goes; a file that is there is replaced as a whole' -r -F
complete -c hsched -n "__fish_hsched_using_subcommand consolidate" -l format -d 'Output format' -r -f -a "table\t'Human-readable text'
json\t'JSON'"
complete -c hsched -n "__fish_hsched_using_subcommand consolidate" -l set -d 'Override a setting for this command; may be given several times (`hsched config show` lists them)' -r
complete -c hsched -n "__fish_hsched_using_subcommand consolidate" -l dry-run -d 'Check the files and show what would be merged, and write nothing'
complete -c hsched -n "__fish_hsched_using_subcommand consolidate" -s h -l help -d 'Print help (see more with \'--help\')'
