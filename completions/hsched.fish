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
complete -c hsched -n "__fish_hsched_needs_command" -f -a "when" -d 'Show which request of each job would finish first, including its wait in the queue'
complete -c hsched -n "__fish_hsched_needs_command" -f -a "run" -d 'Run jobs on the GPUs of this machine, without Slurm'
complete -c hsched -n "__fish_hsched_needs_command" -f -a "submit" -d 'Write a job script for each placed job and submit it with sbatch'
complete -c hsched -n "__fish_hsched_needs_command" -f -a "add" -d 'Add jobs for `hsched watch` to place; submits nothing'
complete -c hsched -n "__fish_hsched_needs_command" -f -a "watch" -d 'Follow the jobs: count epochs, measure speeds, submit waiting jobs to free GPUs, retry failed jobs'
complete -c hsched -n "__fish_hsched_needs_command" -f -a "probe" -d 'Measure the speed of jobs on GPU types without a known speed, with short Slurm jobs'
complete -c hsched -n "__fish_hsched_needs_command" -f -a "status" -d 'Show all jobs: state, GPUs, epochs, predicted and observed epoch times, expected end'
complete -c hsched -n "__fish_hsched_needs_command" -f -a "logs" -d 'Print the output of a job'
complete -c hsched -n "__fish_hsched_needs_command" -f -a "cancel" -d 'Cancel jobs: waiting, pending or running'
complete -c hsched -n "__fish_hsched_needs_command" -f -a "report" -d 'Report a finished epoch from inside a job, for training programs in any language'
complete -c hsched -n "__fish_hsched_needs_command" -f -a "curve" -d 'Predict a metric at the last epoch from a training log, and decide whether to stop'
complete -c hsched -n "__fish_hsched_needs_command" -f -a "gpus" -d 'Show known GPU models: memory, speed, MIG slices, names'
complete -c hsched -n "__fish_hsched_needs_command" -f -a "cache" -d 'Show, edit and share the measured speeds'
complete -c hsched -n "__fish_hsched_needs_command" -f -a "config" -d 'Show the settings'
complete -c hsched -n "__fish_hsched_needs_command" -f -a "doctor" -d 'Check Slurm, its GPUs, the settings and the state directory, and say what to do'
complete -c hsched -n "__fish_hsched_needs_command" -f -a "init" -d 'Write a starter job file and settings file'
complete -c hsched -n "__fish_hsched_needs_command" -f -a "import" -d 'Make a job file from a batch script'
complete -c hsched -n "__fish_hsched_needs_command" -f -a "generate" -d 'Generate a random cluster and random jobs, to try or benchmark hsched'
complete -c hsched -n "__fish_hsched_needs_command" -f -a "demo" -d 'Show what hsched does on a simulated cluster: plan, submit, watch, measure and re-plan'
complete -c hsched -n "__fish_hsched_needs_command" -f -a "simulate" -d 'Simulate policies on a trace of jobs, such as those of your last month'
complete -c hsched -n "__fish_hsched_needs_command" -f -a "trace" -d 'Convert job records of a cluster, or a published trace, into a trace for `hsched simulate`'
complete -c hsched -n "__fish_hsched_needs_command" -f -a "train-policy" -d 'Train a neural network that chooses which job gets GPUs next, for the policy mlf-rl'
complete -c hsched -n "__fish_hsched_needs_command" -f -a "check-ddp" -d 'Check that your version of torch computes correct gradients with unequal local batches'
complete -c hsched -n "__fish_hsched_needs_command" -f -a "consolidate" -d 'Merge the weights of several copies of a model'
complete -c hsched -n "__fish_hsched_using_subcommand inventory" -l cluster -d 'Read a cluster file instead of asking Slurm' -r -F
complete -c hsched -n "__fish_hsched_using_subcommand inventory" -l from -d 'Read saved Slurm output instead of asking Slurm; - reads standard input' -r -F
complete -c hsched -n "__fish_hsched_using_subcommand inventory" -l columns -d 'Format of the table given to --from, if it has no header line' -r
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
complete -c hsched -n "__fish_hsched_using_subcommand plan" -l explain -d 'Explain the plan instead of printing it: the prices of the GPUs and a summary of all jobs, or one job in full. With --queue, show each job\'s requests that no other request beats in both time and cost' -r
complete -c hsched -n "__fish_hsched_using_subcommand plan" -l snapshot -d 'Read a saved snapshot of the queue instead of asking Slurm. `hsched when` compares clusters if it gets one snapshot of each' -r -F
complete -c hsched -n "__fish_hsched_using_subcommand plan" -l cost-weight -d 'Value of one RGU-hour or billing-hour, in hours of completion time. With 0, hsched chooses the request that finishes first, or a cheaper one that finishes within 5 % or 10 min of it' -r
complete -c hsched -n "__fish_hsched_using_subcommand plan" -l futures -d 'Number of simulated futures of the queue, if the time of --budget allows [default: 60; 24 when jobs are planned together]' -r
complete -c hsched -n "__fish_hsched_using_subcommand plan" -l cluster -d 'Read a cluster file instead of asking Slurm' -r -F
complete -c hsched -n "__fish_hsched_using_subcommand plan" -l from -d 'Read saved Slurm output instead of asking Slurm; - reads standard input' -r -F
complete -c hsched -n "__fish_hsched_using_subcommand plan" -l columns -d 'Format of the table given to --from, if it has no header line' -r
complete -c hsched -n "__fish_hsched_using_subcommand plan" -l policy -d 'Policy that places the jobs. All policies except optimal use every GPU that the jobs can use' -r -f -a "optimal\t''
jps\t''
has\t''
optimus\t''
optimus-lb\t''
exhaustive\t''"
complete -c hsched -n "__fish_hsched_using_subcommand plan" -l objective -d 'Objective to minimise' -r -f -a "mean-jct\t''
weighted\t''
makespan\t''
deadlines\t''"
complete -c hsched -n "__fish_hsched_using_subcommand plan" -l seed -d 'Seed of all random choices' -r
complete -c hsched -n "__fish_hsched_using_subcommand plan" -l alpha -d 'jps: start of the sampled range of categories, as a fraction of all categories' -r
complete -c hsched -n "__fish_hsched_using_subcommand plan" -l beta -d 'jps: weight of speed relative to fairness' -r
complete -c hsched -n "__fish_hsched_using_subcommand plan" -l samples -d 'jps: number of categories to sample' -r
complete -c hsched -n "__fish_hsched_using_subcommand plan" -l capacity -d 'Which GPUs the plan may use [default: limits if the setting `capacity` is set, else free]' -r -f -a "free\t'GPUs that are free now or held by jobs of this plan'
up\t'All GPUs on nodes that are up'
limits\t'The number of GPUs of each type that the setting `capacity` gives'"
complete -c hsched -n "__fish_hsched_using_subcommand plan" -l estimate -d 'Estimate speeds that are neither measured nor in the job file, so that jobs can use these GPU types. `learnt` estimates from other models that were measured on both types; `all` also uses the job files and the table of GPUs [default: setting `estimate`, off]. The job key `estimate` takes precedence' -r -f -a "off\t''
learnt\t''
all\t''"
complete -c hsched -n "__fish_hsched_using_subcommand plan" -l budget -d 'Stop the search after this time and use the best plan found so far, such as 10s or 2m [default: 1s for optimal and for lower bounds, unlimited for other policies]' -r
complete -c hsched -n "__fish_hsched_using_subcommand plan" -l set -d 'Override a setting for this command; may be given several times (`hsched config show` lists them)' -r
complete -c hsched -n "__fish_hsched_using_subcommand plan" -l queue -d 'Plan through Slurm\'s queue: choose a request for each job to minimise the mean completion time. Start estimates are those of `hsched when`, but include the chosen requests of the other jobs'
complete -c hsched -n "__fish_hsched_using_subcommand plan" -l use-all -d 'optimal: use every GPU that the jobs can use'
complete -c hsched -n "__fish_hsched_using_subcommand plan" -l pin -d 'Request the nodes of the plan by name, instead of any nodes with the same GPUs'
complete -c hsched -n "__fish_hsched_using_subcommand plan" -l no-cache -d 'Use only the speeds of the job file, not measured speeds'
complete -c hsched -n "__fish_hsched_using_subcommand plan" -l no-bound -d 'Do not compute a lower bound for plans of policies other than optimal'
complete -c hsched -n "__fish_hsched_using_subcommand plan" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c hsched -n "__fish_hsched_using_subcommand when" -l format -d 'Output format' -r -f -a "table\t'Human-readable text'
json\t'JSON'"
complete -c hsched -n "__fish_hsched_using_subcommand when" -l snapshot -d 'Read a saved snapshot of the queue instead of asking Slurm. `hsched when` compares clusters if it gets one snapshot of each' -r -F
complete -c hsched -n "__fish_hsched_using_subcommand when" -l cost-weight -d 'Value of one RGU-hour or billing-hour, in hours of completion time. With 0, hsched chooses the request that finishes first, or a cheaper one that finishes within 5 % or 10 min of it' -r
complete -c hsched -n "__fish_hsched_using_subcommand when" -l futures -d 'Number of simulated futures of the queue, if the time of --budget allows [default: 60; 24 when jobs are planned together]' -r
complete -c hsched -n "__fish_hsched_using_subcommand when" -l save -d 'Also save the snapshot of the queue to this file, as JSON' -r -F
complete -c hsched -n "__fish_hsched_using_subcommand when" -l seed -d 'Seed of the random numbers' -r
complete -c hsched -n "__fish_hsched_using_subcommand when" -l budget -d 'Time limit for the simulations, such as 10s or 2m' -r
complete -c hsched -n "__fish_hsched_using_subcommand when" -l estimate -d 'Estimate speeds that are neither measured nor in the job file, so that jobs can use these GPU types. `learnt` estimates from other models that were measured on both types; `all` also uses the job files and the table of GPUs [default: setting `estimate`, off]. The job key `estimate` takes precedence' -r -f -a "off\t''
learnt\t''
all\t''"
complete -c hsched -n "__fish_hsched_using_subcommand when" -l set -d 'Override a setting for this command; may be given several times (`hsched config show` lists them)' -r
complete -c hsched -n "__fish_hsched_using_subcommand when" -l score -d 'Show how accurate the start estimates of the last 90 days were. Makes no calls to Slurm: hsched watch records the starts'
complete -c hsched -n "__fish_hsched_using_subcommand when" -l no-cache -d 'Use only the speeds of the job file, not measured speeds'
complete -c hsched -n "__fish_hsched_using_subcommand when" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c hsched -n "__fish_hsched_using_subcommand run" -l devices -d 'Use these simulated devices, such as cpu:4 or v100:2,t4:2, instead of the GPUs of the machine. Programs then see no GPU' -r
complete -c hsched -n "__fish_hsched_using_subcommand run" -l policy -d 'Policy that assigns devices to jobs over time, and stops jobs to make room for other jobs' -r -f -a "horizon\t''
fifo\t''
fifo-het\t''
fifo-by-name\t''
yarn-cs\t''
srtf\t''
srsf\t''
las\t''
hare\t''
hlas\t''
hlas-p\t''
hadar\t''
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
complete -c hsched -n "__fish_hsched_using_subcommand run" -l objective -d 'Objective to minimise' -r -f -a "mean-jct\t''
weighted\t''
makespan\t''
deadlines\t''"
complete -c hsched -n "__fish_hsched_using_subcommand run" -l seed -d 'Seed of all random choices' -r
complete -c hsched -n "__fish_hsched_using_subcommand run" -l alpha -d 'jps: start of the sampled range of categories, as a fraction of all categories' -r
complete -c hsched -n "__fish_hsched_using_subcommand run" -l beta -d 'jps: weight of speed relative to fairness' -r
complete -c hsched -n "__fish_hsched_using_subcommand run" -l samples -d 'jps: number of categories to sample' -r
complete -c hsched -n "__fish_hsched_using_subcommand run" -l groups -d 'hlas: groups in which GPUs are allocated: individual GPUs (gpus), the GPUs of a node (nodes), or a number of groups of nearly equal size' -r
complete -c hsched -n "__fish_hsched_using_subcommand run" -l thresholds -d 'hlas: thresholds of average service per group, in ascending order, such as 5m,10m,20m; a job that exceeds one moves down a level [default: 5 rounds of the median job, then doubled four times]' -r
complete -c hsched -n "__fish_hsched_using_subcommand run" -l promote -d 'hlas: move a job to the first level when its wait since its last round exceeds this multiple of its service [default: never]' -r
complete -c hsched -n "__fish_hsched_using_subcommand run" -l sharing -d 'hadar: whether the GPUs of a job get equal shares of the batch (equal, as in the paper) or shares that fit their speeds (balanced)' -r -f -a "equal\t''
balanced\t''"
complete -c hsched -n "__fish_hsched_using_subcommand run" -l utility -d 'hadar: value of completing a job: its steps per second (throughput, as in the paper; favours long jobs), or its shortest possible run time divided by its completion time (normalised)' -r -f -a "throughput\t''
normalised\t''"
complete -c hsched -n "__fish_hsched_using_subcommand run" -l worth -d 'hadar: budget of a job: the value of completing it (finish, as in the paper), or the part of that value that one round of waiting costs (delay). `--utility normalised --worth delay` gives the best mean completion times' -r -f -a "finish\t''
delay\t''"
complete -c hsched -n "__fish_hsched_using_subcommand run" -l network -d 'mlf-rl: file of the neural network, as `hsched train-policy` writes it' -r -F
complete -c hsched -n "__fish_hsched_using_subcommand run" -l notify -d 'Command to call when jobs complete, fail, or cannot start without your help (setting notify). It gets one line per job on standard input' -r
complete -c hsched -n "__fish_hsched_using_subcommand run" -l estimate -d 'Estimate speeds that are neither measured nor in the job file, so that jobs can use these GPU types. `learnt` estimates from other models that were measured on both types; `all` also uses the job files and the table of GPUs [default: setting `estimate`, off]. The job key `estimate` takes precedence' -r -f -a "off\t''
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
complete -c hsched -n "__fish_hsched_using_subcommand submit" -l race -d 'Queue up to N requests of each job. When one starts, hsched cancels the others. N above 1 implies --queue' -r
complete -c hsched -n "__fish_hsched_using_subcommand submit" -l cost-weight -d 'Value of one RGU-hour or billing-hour, in hours of completion time. With 0, hsched chooses the request that finishes first, or a cheaper one that finishes within 5 % or 10 min of it' -r
complete -c hsched -n "__fish_hsched_using_subcommand submit" -l futures -d 'Number of simulated futures of the queue, if the time of --budget allows [default: 60; 24 when jobs are planned together]' -r
complete -c hsched -n "__fish_hsched_using_subcommand submit" -l run-id -d 'Id of this run [default: the time and a random number]' -r
complete -c hsched -n "__fish_hsched_using_subcommand submit" -l format -d 'Output format' -r -f -a "table\t'Human-readable text'
json\t'JSON'"
complete -c hsched -n "__fish_hsched_using_subcommand submit" -l gpus -d 'With --together: the GPUs of each node, such as v100:4 or v100:2,t4:2' -r
complete -c hsched -n "__fish_hsched_using_subcommand submit" -l nodes -d 'With --together: the number of nodes' -r
complete -c hsched -n "__fish_hsched_using_subcommand submit" -l time -d 'With --together: the time limit of the allocation, such as 12h' -r
complete -c hsched -n "__fish_hsched_using_subcommand submit" -l cluster -d 'Read a cluster file instead of asking Slurm' -r -F
complete -c hsched -n "__fish_hsched_using_subcommand submit" -l from -d 'Read saved Slurm output instead of asking Slurm; - reads standard input' -r -F
complete -c hsched -n "__fish_hsched_using_subcommand submit" -l columns -d 'Format of the table given to --from, if it has no header line' -r
complete -c hsched -n "__fish_hsched_using_subcommand submit" -l objective -d 'Objective to minimise' -r -f -a "mean-jct\t''
weighted\t''
makespan\t''
deadlines\t''"
complete -c hsched -n "__fish_hsched_using_subcommand submit" -l seed -d 'Seed of all random choices' -r
complete -c hsched -n "__fish_hsched_using_subcommand submit" -l alpha -d 'jps: start of the sampled range of categories, as a fraction of all categories' -r
complete -c hsched -n "__fish_hsched_using_subcommand submit" -l beta -d 'jps: weight of speed relative to fairness' -r
complete -c hsched -n "__fish_hsched_using_subcommand submit" -l samples -d 'jps: number of categories to sample' -r
complete -c hsched -n "__fish_hsched_using_subcommand submit" -l capacity -d 'Which GPUs the plan may use [default: limits if the setting `capacity` is set, else free]' -r -f -a "free\t'GPUs that are free now or held by jobs of this plan'
up\t'All GPUs on nodes that are up'
limits\t'The number of GPUs of each type that the setting `capacity` gives'"
complete -c hsched -n "__fish_hsched_using_subcommand submit" -l estimate -d 'Estimate speeds that are neither measured nor in the job file, so that jobs can use these GPU types. `learnt` estimates from other models that were measured on both types; `all` also uses the job files and the table of GPUs [default: setting `estimate`, off]. The job key `estimate` takes precedence' -r -f -a "off\t''
learnt\t''
all\t''"
complete -c hsched -n "__fish_hsched_using_subcommand submit" -l budget -d 'Stop the search after this time and use the best plan found so far, such as 10s or 2m [default: 1s for optimal and for lower bounds, unlimited for other policies]' -r
complete -c hsched -n "__fish_hsched_using_subcommand submit" -l policy -d 'Policy that places the jobs. All policies except optimal use every GPU that the jobs can use. With --together, the policy of hsched run, which may also be one that reschedules running jobs [default with --together: horizon]' -r -f -a "horizon\t''
fifo\t''
fifo-het\t''
fifo-by-name\t''
yarn-cs\t''
srtf\t''
srsf\t''
las\t''
hare\t''
hlas\t''
hlas-p\t''
hadar\t''
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
complete -c hsched -n "__fish_hsched_using_subcommand submit" -l dry-run -d 'Print the scripts instead of submitting them. `hsched watch` does not follow a job whose script you submit yourself'
complete -c hsched -n "__fish_hsched_using_subcommand submit" -l restart -d 'Start over at the first epoch. Checkpoints are not deleted: remove them, or the training program resumes from them'
complete -c hsched -n "__fish_hsched_using_subcommand submit" -l queue -d 'Submit the requests that `hsched plan --queue` chooses: for each job the GPUs, account, partition and time limit that minimise the mean completion time, including the wait in the queue'
complete -c hsched -n "__fish_hsched_using_subcommand submit" -l together -d 'Submit one Slurm job in which `hsched run` runs all jobs, instead of one Slurm job for each'
complete -c hsched -n "__fish_hsched_using_subcommand submit" -l use-all -d 'optimal: use every GPU that the jobs can use'
complete -c hsched -n "__fish_hsched_using_subcommand submit" -l pin -d 'Request the nodes of the plan by name, instead of any nodes with the same GPUs'
complete -c hsched -n "__fish_hsched_using_subcommand submit" -l no-cache -d 'Use only the speeds of the job file, not measured speeds'
complete -c hsched -n "__fish_hsched_using_subcommand submit" -l no-bound -d 'Do not compute a lower bound for plans of policies other than optimal'
complete -c hsched -n "__fish_hsched_using_subcommand submit" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c hsched -n "__fish_hsched_using_subcommand add" -l account -d 'Slurm account' -r
complete -c hsched -n "__fish_hsched_using_subcommand add" -l partition -d 'Slurm partition' -r
complete -c hsched -n "__fish_hsched_using_subcommand add" -l qos -d 'Slurm quality of service' -r
complete -c hsched -n "__fish_hsched_using_subcommand add" -l estimate -d 'Estimate speeds that are neither measured nor in the job file, so that jobs can use these GPU types. `learnt` estimates from other models that were measured on both types; `all` also uses the job files and the table of GPUs [default: setting `estimate`, off]. The job key `estimate` takes precedence' -r -f -a "off\t''
learnt\t''
all\t''"
complete -c hsched -n "__fish_hsched_using_subcommand add" -l policy -d 'Policy that places the jobs. All policies except optimal use every GPU that the jobs can use' -r -f -a "optimal\t''
jps\t''
has\t''
optimus\t''
optimus-lb\t''
exhaustive\t''"
complete -c hsched -n "__fish_hsched_using_subcommand add" -l objective -d 'Objective to minimise' -r -f -a "mean-jct\t''
weighted\t''
makespan\t''
deadlines\t''"
complete -c hsched -n "__fish_hsched_using_subcommand add" -l seed -d 'Seed of all random choices' -r
complete -c hsched -n "__fish_hsched_using_subcommand add" -l alpha -d 'jps: start of the sampled range of categories, as a fraction of all categories' -r
complete -c hsched -n "__fish_hsched_using_subcommand add" -l beta -d 'jps: weight of speed relative to fairness' -r
complete -c hsched -n "__fish_hsched_using_subcommand add" -l samples -d 'jps: number of categories to sample' -r
complete -c hsched -n "__fish_hsched_using_subcommand add" -l format -d 'Output format' -r -f -a "table\t'Human-readable text'
json\t'JSON'"
complete -c hsched -n "__fish_hsched_using_subcommand add" -l set -d 'Override a setting for this command; may be given several times (`hsched config show` lists them)' -r
complete -c hsched -n "__fish_hsched_using_subcommand add" -l dry-run -d 'Show what would be added, without adding it'
complete -c hsched -n "__fish_hsched_using_subcommand add" -l restart -d 'Start over at the first epoch. Checkpoints are not deleted: remove them, or the training program resumes from them'
complete -c hsched -n "__fish_hsched_using_subcommand add" -l use-all -d 'optimal: use every GPU that the jobs can use'
complete -c hsched -n "__fish_hsched_using_subcommand add" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c hsched -n "__fish_hsched_using_subcommand watch" -l interval -d 'Time between two turns, such as 30s or 5m' -r
complete -c hsched -n "__fish_hsched_using_subcommand watch" -l moves -d 'Whether to stop running jobs and move them to better GPUs. With never, only waiting jobs get free GPUs' -r -f -a "never\t''
auto\t''"
complete -c hsched -n "__fish_hsched_using_subcommand watch" -l race -r
complete -c hsched -n "__fish_hsched_using_subcommand watch" -l margin -d 'auto: move a job only if the time saved exceeds the cost of the restart by this fraction of the cost' -r
complete -c hsched -n "__fish_hsched_using_subcommand watch" -l notify -d 'Command to call when jobs complete, fail, or cannot start without your help (setting notify). It gets one line per job on standard input' -r
complete -c hsched -n "__fish_hsched_using_subcommand watch" -l objective -d 'Objective to minimise' -r -f -a "mean-jct\t''
weighted\t''
makespan\t''
deadlines\t''"
complete -c hsched -n "__fish_hsched_using_subcommand watch" -l seed -d 'Seed of all random choices' -r
complete -c hsched -n "__fish_hsched_using_subcommand watch" -l alpha -d 'jps: start of the sampled range of categories, as a fraction of all categories' -r
complete -c hsched -n "__fish_hsched_using_subcommand watch" -l beta -d 'jps: weight of speed relative to fairness' -r
complete -c hsched -n "__fish_hsched_using_subcommand watch" -l samples -d 'jps: number of categories to sample' -r
complete -c hsched -n "__fish_hsched_using_subcommand watch" -l groups -d 'hlas: groups in which GPUs are allocated: individual GPUs (gpus), the GPUs of a node (nodes), or a number of groups of nearly equal size' -r
complete -c hsched -n "__fish_hsched_using_subcommand watch" -l thresholds -d 'hlas: thresholds of average service per group, in ascending order, such as 5m,10m,20m; a job that exceeds one moves down a level [default: 5 rounds of the median job, then doubled four times]' -r
complete -c hsched -n "__fish_hsched_using_subcommand watch" -l promote -d 'hlas: move a job to the first level when its wait since its last round exceeds this multiple of its service [default: never]' -r
complete -c hsched -n "__fish_hsched_using_subcommand watch" -l sharing -d 'hadar: whether the GPUs of a job get equal shares of the batch (equal, as in the paper) or shares that fit their speeds (balanced)' -r -f -a "equal\t''
balanced\t''"
complete -c hsched -n "__fish_hsched_using_subcommand watch" -l utility -d 'hadar: value of completing a job: its steps per second (throughput, as in the paper; favours long jobs), or its shortest possible run time divided by its completion time (normalised)' -r -f -a "throughput\t''
normalised\t''"
complete -c hsched -n "__fish_hsched_using_subcommand watch" -l worth -d 'hadar: budget of a job: the value of completing it (finish, as in the paper), or the part of that value that one round of waiting costs (delay). `--utility normalised --worth delay` gives the best mean completion times' -r -f -a "finish\t''
delay\t''"
complete -c hsched -n "__fish_hsched_using_subcommand watch" -l network -d 'mlf-rl: file of the neural network, as `hsched train-policy` writes it' -r -F
complete -c hsched -n "__fish_hsched_using_subcommand watch" -l estimate -d 'Estimate speeds that are neither measured nor in the job file, so that jobs can use these GPU types. `learnt` estimates from other models that were measured on both types; `all` also uses the job files and the table of GPUs [default: setting `estimate`, off]. The job key `estimate` takes precedence' -r -f -a "off\t''
learnt\t''
all\t''"
complete -c hsched -n "__fish_hsched_using_subcommand watch" -l format -d 'Output format: text, or one JSON object per line with time, job, topic and text' -r -f -a "table\t'Human-readable text'
json\t'JSON'"
complete -c hsched -n "__fish_hsched_using_subcommand watch" -l budget -d 'Stop each search after this time and use the best plan found so far' -r
complete -c hsched -n "__fish_hsched_using_subcommand watch" -l policy -d 'Policy that places the jobs. All policies except optimal use every GPU that the jobs can use' -r -f -a "optimal\t''
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
complete -c hsched -n "__fish_hsched_using_subcommand watch" -l queue -d 'Also queue jobs in Slurm that find no free GPUs, or that finish earlier on GPUs that are in use'
complete -c hsched -n "__fish_hsched_using_subcommand watch" -l pin -d 'Request the nodes of the plan by name, instead of any nodes with the same GPUs'
complete -c hsched -n "__fish_hsched_using_subcommand watch" -l use-all -d 'optimal: use every GPU that the jobs can use'
complete -c hsched -n "__fish_hsched_using_subcommand watch" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c hsched -n "__fish_hsched_using_subcommand probe" -s j -l job -d 'Probe only this job; may be given several times' -r
complete -c hsched -n "__fish_hsched_using_subcommand probe" -l time -d 'Time limit of a probe, such as 5m; at least 1m' -r
complete -c hsched -n "__fish_hsched_using_subcommand probe" -l format -d 'Output format' -r -f -a "table\t'Human-readable text'
json\t'JSON'"
complete -c hsched -n "__fish_hsched_using_subcommand probe" -l set -d 'Override a setting for this command; may be given several times (`hsched config show` lists them)' -r
complete -c hsched -n "__fish_hsched_using_subcommand probe" -l all -d 'Also probe GPU types whose speed is known only from the job file'
complete -c hsched -n "__fish_hsched_using_subcommand probe" -l dry-run -d 'Show what would be measured, without submitting it'
complete -c hsched -n "__fish_hsched_using_subcommand probe" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c hsched -n "__fish_hsched_using_subcommand status" -l format -d 'Output format' -r -f -a "table\t'Human-readable text'
json\t'JSON'"
complete -c hsched -n "__fish_hsched_using_subcommand status" -l set -d 'Override a setting for this command; may be given several times (`hsched config show` lists them)' -r
complete -c hsched -n "__fish_hsched_using_subcommand status" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c hsched -n "__fish_hsched_using_subcommand logs" -l tail -d 'Print only the last LINES lines; with --follow, start with them' -r
complete -c hsched -n "__fish_hsched_using_subcommand logs" -l run -d 'Print the output of this run (`hsched status JOB` lists them)' -r
complete -c hsched -n "__fish_hsched_using_subcommand logs" -l attempt -d 'Print the output of this submission, counted from 1' -r
complete -c hsched -n "__fish_hsched_using_subcommand logs" -l set -d 'Override a setting for this command; may be given several times (`hsched config show` lists them)' -r
complete -c hsched -n "__fish_hsched_using_subcommand logs" -s f -l follow -d 'Keep printing as the output grows, across moves and retries, until the job has ended'
complete -c hsched -n "__fish_hsched_using_subcommand logs" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c hsched -n "__fish_hsched_using_subcommand cancel" -l format -d 'Output format' -r -f -a "table\t'Human-readable text'
json\t'JSON'"
complete -c hsched -n "__fish_hsched_using_subcommand cancel" -l set -d 'Override a setting for this command; may be given several times (`hsched config show` lists them)' -r
complete -c hsched -n "__fish_hsched_using_subcommand cancel" -l all -d 'All jobs that have not ended'
complete -c hsched -n "__fish_hsched_using_subcommand cancel" -l dry-run -d 'Show what would be cancelled, without cancelling it'
complete -c hsched -n "__fish_hsched_using_subcommand cancel" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c hsched -n "__fish_hsched_using_subcommand report" -l epoch -d 'Number of the finished epoch, from 1' -r
complete -c hsched -n "__fish_hsched_using_subcommand report" -l compute-s -d 'Seconds that this rank spent computing in the epoch, without waiting for other ranks' -r
complete -c hsched -n "__fish_hsched_using_subcommand report" -l epoch-s -d 'Seconds that the epoch took' -r
complete -c hsched -n "__fish_hsched_using_subcommand report" -l samples -d 'Samples that this rank trained in the epoch [default: its share in the plan]' -r
complete -c hsched -n "__fish_hsched_using_subcommand report" -l batch -d 'Local batch of this rank [default: `HSCHED_LOCAL_BATCH`]' -r
complete -c hsched -n "__fish_hsched_using_subcommand report" -l metric -d 'A metric such as loss=0.7; may be given several times' -r
complete -c hsched -n "__fish_hsched_using_subcommand report" -l set -d 'Override a setting for this command; may be given several times (`hsched config show` lists them)' -r
complete -c hsched -n "__fish_hsched_using_subcommand report" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c hsched -n "__fish_hsched_using_subcommand curve" -l history -d 'Training log, the same as FILE' -r -F
complete -c hsched -n "__fish_hsched_using_subcommand curve" -l metric -d 'Metric to predict [default: the only one, else the loss]' -r
complete -c hsched -n "__fish_hsched_using_subcommand curve" -l mode -d 'Whether a low (min) or a high (max) value is better [default: min for a loss or an error, else max]' -r -f -a "min\t''
max\t''"
complete -c hsched -n "__fish_hsched_using_subcommand curve" -l epochs -d 'Total number of epochs [default: twice the epochs in the log]' -r
complete -c hsched -n "__fish_hsched_using_subcommand curve" -l target -d 'Target value of the metric' -r
complete -c hsched -n "__fish_hsched_using_subcommand curve" -l rule -d 'Early-stopping rule [default: target if --target is given, else best]' -r -f -a "epochs\t''
best\t''
target\t''"
complete -c hsched -n "__fish_hsched_using_subcommand curve" -l patience -d 'Stop after this many epochs without a better value' -r
complete -c hsched -n "__fish_hsched_using_subcommand curve" -l confidence -d 'Probability that a prediction must reach to stop the training' -r
complete -c hsched -n "__fish_hsched_using_subcommand curve" -l tolerance -d 'Smallest improvement that counts, in the unit of the metric [default: 0.02 of the range seen]' -r
complete -c hsched -n "__fish_hsched_using_subcommand curve" -l svg -d 'Also write a chart to this file, as SVG' -r -F
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
complete -c hsched -n "__fish_hsched_using_subcommand cache; and not __fish_seen_subcommand_from show set forget export import" -f -a "import" -d 'Import speeds from `hsched cache export`'
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
complete -c hsched -n "__fish_hsched_using_subcommand doctor" -l restore -d 'Restore the state from this file: state.json, state.json.old or journal in the state directory, or the path of a copy of one of them' -r -F
complete -c hsched -n "__fish_hsched_using_subcommand doctor" -l bundle -d 'Record the output of every call that hsched makes to read from Slurm, as a compressed archive that you can attach to a bug report' -r -F
complete -c hsched -n "__fish_hsched_using_subcommand doctor" -l format -d 'Output format' -r -f -a "table\t'Human-readable text'
json\t'JSON'"
complete -c hsched -n "__fish_hsched_using_subcommand doctor" -l set -d 'Override a setting for this command; may be given several times (`hsched config show` lists them)' -r
complete -c hsched -n "__fish_hsched_using_subcommand doctor" -l keep-names -d 'Keep the real names in the bundle'
complete -c hsched -n "__fish_hsched_using_subcommand doctor" -l dry-run -d 'Only show what --restore or --bundle would do'
complete -c hsched -n "__fish_hsched_using_subcommand doctor" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c hsched -n "__fish_hsched_using_subcommand init" -l cluster -d 'Read a cluster file instead of asking Slurm' -r -F
complete -c hsched -n "__fish_hsched_using_subcommand init" -l from -d 'Read saved Slurm output instead of asking Slurm; - reads standard input' -r -F
complete -c hsched -n "__fish_hsched_using_subcommand init" -l columns -d 'Format of the table given to --from, if it has no header line' -r
complete -c hsched -n "__fish_hsched_using_subcommand init" -l set -d 'Override a setting for this command; may be given several times (`hsched config show` lists them)' -r
complete -c hsched -n "__fish_hsched_using_subcommand init" -l force -d 'Overwrite existing files'
complete -c hsched -n "__fish_hsched_using_subcommand init" -l dry-run -d 'Print the files instead of writing them'
complete -c hsched -n "__fish_hsched_using_subcommand init" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c hsched -n "__fish_hsched_using_subcommand import" -s o -l output -d 'Write to this file, which must not exist, instead of stdout' -r -F
complete -c hsched -n "__fish_hsched_using_subcommand import" -l format -d 'Output format; JSON has no comments' -r -f -a "yaml\t'A job file with comments'
json\t'A job file in JSON'"
complete -c hsched -n "__fish_hsched_using_subcommand import" -l set -d 'Override a setting for this command; may be given several times (`hsched config show` lists them)' -r
complete -c hsched -n "__fish_hsched_using_subcommand import" -l dry-run -d 'Print the job file instead of writing it'
complete -c hsched -n "__fish_hsched_using_subcommand import" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c hsched -n "__fish_hsched_using_subcommand generate; and not __fish_seen_subcommand_from trace" -l gpus -d 'Number of GPUs in the cluster' -r
complete -c hsched -n "__fish_hsched_using_subcommand generate; and not __fish_seen_subcommand_from trace" -l gpus-per-node -d 'GPUs per node; the last node gets the remainder' -r
complete -c hsched -n "__fish_hsched_using_subcommand generate; and not __fish_seen_subcommand_from trace" -l types -d 'Number of GPU types, or their names separated by commas. Types not listed above need a speed, as in v100,l40s=1.4' -r
complete -c hsched -n "__fish_hsched_using_subcommand generate; and not __fish_seen_subcommand_from trace" -l jobs -d 'Number of jobs' -r
complete -c hsched -n "__fish_hsched_using_subcommand generate; and not __fish_seen_subcommand_from trace" -l sync -d 'When ranks exchange gradients' -r -f -a "step\t'After each global batch'
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
complete -c hsched -n "__fish_hsched_using_subcommand generate; and not __fish_seen_subcommand_from trace" -l dry-run -d 'Print the files instead of writing them'
complete -c hsched -n "__fish_hsched_using_subcommand generate; and not __fish_seen_subcommand_from trace" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c hsched -n "__fish_hsched_using_subcommand generate; and not __fish_seen_subcommand_from trace" -a "trace" -d 'Generate a random trace for `hsched simulate`, with the distributions of published studies'
complete -c hsched -n "__fish_hsched_using_subcommand generate; and __fish_seen_subcommand_from trace" -l rules -d 'Rules that generate the jobs' -r -f -a "gavel\t'Job types of Gavel'
paper\t'Jobs of the TPDS 2024 paper'
heavy-tails\t'Heavy-tailed run times'
hare\t'Jobs of Hare and HLAS'"
complete -c hsched -n "__fish_hsched_using_subcommand generate; and __fish_seen_subcommand_from trace" -l throughputs -d 'Table of steps per second from Gavel (its JSON, or CSV), for --rules gavel' -r -F
complete -c hsched -n "__fish_hsched_using_subcommand generate; and __fish_seen_subcommand_from trace" -l types -d 'GPU types for --rules heavy-tails: a number, or names separated by commas. Types without a known speed need one, as in v100,l40s=1.4' -r
complete -c hsched -n "__fish_hsched_using_subcommand generate; and __fish_seen_subcommand_from trace" -l no-faster-than -d 'Limit all GPU types to the speed of this one, for --rules gavel. Most published results of Gavel use v100 here' -r
complete -c hsched -n "__fish_hsched_using_subcommand generate; and __fish_seen_subcommand_from trace" -l sync -d 'When ranks exchange gradients, for --rules paper' -r -f -a "step\t'After each global batch'
epoch\t'Once per epoch'"
complete -c hsched -n "__fish_hsched_using_subcommand generate; and __fish_seen_subcommand_from trace" -l jobs -d 'Number of jobs' -r
complete -c hsched -n "__fish_hsched_using_subcommand generate; and __fish_seen_subcommand_from trace" -l gap -d 'Mean time between arrivals' -r
complete -c hsched -n "__fish_hsched_using_subcommand generate; and __fish_seen_subcommand_from trace" -l recorded -d 'Take arrival times, run times and numbers of GPUs from CSV with `submit_s`, `duration_s` and `num_gpus`, such as the Philly trace' -r -F
complete -c hsched -n "__fish_hsched_using_subcommand generate; and __fish_seen_subcommand_from trace" -l load -d 'Scale the times between arrivals so that the jobs request this fraction of the cluster' -r
complete -c hsched -n "__fish_hsched_using_subcommand generate; and __fish_seen_subcommand_from trace" -l cluster -d 'Read a cluster file instead of asking Slurm' -r -F
complete -c hsched -n "__fish_hsched_using_subcommand generate; and __fish_seen_subcommand_from trace" -l from -d 'Read saved Slurm output instead of asking Slurm; - reads standard input' -r -F
complete -c hsched -n "__fish_hsched_using_subcommand generate; and __fish_seen_subcommand_from trace" -l columns -d 'Format of the table given to --from, if it has no header line' -r
complete -c hsched -n "__fish_hsched_using_subcommand generate; and __fish_seen_subcommand_from trace" -l seed -d 'Random seed' -r
complete -c hsched -n "__fish_hsched_using_subcommand generate; and __fish_seen_subcommand_from trace" -s o -l output -d 'Write the trace to this file [default: standard output]' -r -F
complete -c hsched -n "__fish_hsched_using_subcommand generate; and __fish_seen_subcommand_from trace" -l set -d 'Override a setting for this command; may be given several times (`hsched config show` lists them)' -r
complete -c hsched -n "__fish_hsched_using_subcommand generate; and __fish_seen_subcommand_from trace" -l single-gpu -d 'Give every job of --rules gavel one GPU'
complete -c hsched -n "__fish_hsched_using_subcommand generate; and __fish_seen_subcommand_from trace" -l mouldable -d 'Let jobs run on other numbers of GPUs than they request'
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
complete -c hsched -n "__fish_hsched_using_subcommand simulate" -l columns -d 'Format of the table given to --from, if it has no header line' -r
complete -c hsched -n "__fish_hsched_using_subcommand simulate" -l policy -d 'Policies, separated by commas. The policies of `hsched plan` place all jobs again whenever a job arrives or ends' -r -f -a "horizon\t''
fifo\t''
fifo-het\t''
fifo-by-name\t''
yarn-cs\t''
srtf\t''
srsf\t''
las\t''
hare\t''
hlas\t''
hlas-p\t''
hadar\t''
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
mlf-rl\t''
hadare\t''"
complete -c hsched -n "__fish_hsched_using_subcommand simulate" -l objective -d 'Objective to minimise, for the policies of `hsched plan` and for hadare. Other policies have an objective of their own. hadare: with mean-jct, jobs that can complete within the round are the first to get nodes; with makespan, the job that ends last gets the next node' -r -f -a "mean-jct\t''
weighted\t''
makespan\t''
deadlines\t''"
complete -c hsched -n "__fish_hsched_using_subcommand simulate" -l execution -d 'Whether each task of a job computes by itself at any time, as in the papers, or all GPUs of a job compute together, as on a cluster' -r -f -a "tasks\t'One GPU for one task'
gangs\t'All GPUs of the job, for whole epochs'"
complete -c hsched -n "__fish_hsched_using_subcommand simulate" -l assign -d 'hare: whether a task goes to the GPU that is free first (available), to the GPU on which it ends first (finish), or also into gaps between earlier tasks (insert)' -r -f -a "available\t''
finish\t''
insert\t''"
complete -c hsched -n "__fish_hsched_using_subcommand simulate" -l alpha -d 'jps: start of the sampled range of categories, as a fraction of all categories' -r
complete -c hsched -n "__fish_hsched_using_subcommand simulate" -l beta -d 'jps: weight of speed relative to fairness' -r
complete -c hsched -n "__fish_hsched_using_subcommand simulate" -l samples -d 'jps: number of categories to sample' -r
complete -c hsched -n "__fish_hsched_using_subcommand simulate" -l groups -d 'hlas: groups in which GPUs are allocated: individual GPUs (gpus), the GPUs of a node (nodes), or a number of groups of nearly equal size' -r
complete -c hsched -n "__fish_hsched_using_subcommand simulate" -l thresholds -d 'hlas: thresholds of average service per group, in ascending order, such as 5m,10m,20m; a job that exceeds one moves down a level [default: 5 rounds of the median job, then doubled four times]' -r
complete -c hsched -n "__fish_hsched_using_subcommand simulate" -l promote -d 'hlas: move a job to the first level when its wait since its last round exceeds this multiple of its service [default: never]' -r
complete -c hsched -n "__fish_hsched_using_subcommand simulate" -l sharing -d 'hadar: whether the GPUs of a job get equal shares of the batch (equal, as in the paper) or shares that fit their speeds (balanced)' -r -f -a "equal\t''
balanced\t''"
complete -c hsched -n "__fish_hsched_using_subcommand simulate" -l utility -d 'hadar: value of completing a job: its steps per second (throughput, as in the paper; favours long jobs), or its shortest possible run time divided by its completion time (normalised)' -r -f -a "throughput\t''
normalised\t''"
complete -c hsched -n "__fish_hsched_using_subcommand simulate" -l worth -d 'hadar: budget of a job: the value of completing it (finish, as in the paper), or the part of that value that one round of waiting costs (delay). `--utility normalised --worth delay` gives the best mean completion times' -r -f -a "finish\t''
delay\t''"
complete -c hsched -n "__fish_hsched_using_subcommand simulate" -l network -d 'mlf-rl: file of the neural network, as `hsched train-policy` writes it' -r -F
complete -c hsched -n "__fish_hsched_using_subcommand simulate" -l overhead -d 'hadare: time in each round for reading and merging copies, such as 5s' -r
complete -c hsched -n "__fish_hsched_using_subcommand simulate" -l migrate-part -d 'Largest fraction of the tasks on overloaded GPUs that may move' -r
complete -c hsched -n "__fish_hsched_using_subcommand simulate" -l time-unit -d 'Unit of the times in priorities' -r
complete -c hsched -n "__fish_hsched_using_subcommand simulate" -l round -d 'Decide only at multiples of this time [default: at every change; 6m for hadar and hadare]' -r
complete -c hsched -n "__fish_hsched_using_subcommand simulate" -l rounds -d 'Stop after this many rounds. Without --round, a round takes 6m, or 1m for task graphs' -r
complete -c hsched -n "__fish_hsched_using_subcommand simulate" -l restart-cost -d 'Time that each restart costs [default: the job key `checkpoint.restart_cost`, else the setting `restart_cost`]' -r
complete -c hsched -n "__fish_hsched_using_subcommand simulate" -l lose -d 'Work that a stopped job loses: nothing, or its current epoch' -r -f -a "nothing\t''
epoch\t''"
complete -c hsched -n "__fish_hsched_using_subcommand simulate" -l queue-wait -d 'Decide by the rules of `hsched watch --moves auto` on a shared cluster: no running job is stopped only to wait, and policies that reschedule running jobs stop only jobs with the key `checkpoint`. Each move waits this long in the queue, such as 0s' -r
complete -c hsched -n "__fish_hsched_using_subcommand simulate" -l repack -d 'Whether running jobs move between nodes of the same type, so that a job on several nodes fits on one: never (off), only to free GPUs (gather), or also by moving other jobs (full)' -r -f -a "off\t''
gather\t''
full\t''"
complete -c hsched -n "__fish_hsched_using_subcommand simulate" -l noise -d 'Relative error of the work that policies see: each job gets a random factor between 1 - NOISE and 1 + NOISE' -r
complete -c hsched -n "__fish_hsched_using_subcommand simulate" -l job-failures -d 'Mean time between failures of a running job [default: no failures]' -r
complete -c hsched -n "__fish_hsched_using_subcommand simulate" -l node-failures -d 'Mean time between failures of a node [default: no failures]' -r
complete -c hsched -n "__fish_hsched_using_subcommand simulate" -l node-repair -d 'Downtime of a failed node' -r
complete -c hsched -n "__fish_hsched_using_subcommand simulate" -l seed -d 'Seed of all random choices' -r
complete -c hsched -n "__fish_hsched_using_subcommand simulate" -l sweep -d 'Repeat for several values: load=0.5,0.8,1 seed=0..9 restart-cost=0s,60s noise=0,0.3; may be given several times' -r
complete -c hsched -n "__fish_hsched_using_subcommand simulate" -l events -d 'Write all events to this file as JSON lines, policy by policy; - writes them to standard output' -r -F
complete -c hsched -n "__fish_hsched_using_subcommand simulate" -l format -d 'Output format' -r -f -a "table\t'Tables and charts'
json\t'JSON'
csv\t'CSV, one line per run'"
complete -c hsched -n "__fish_hsched_using_subcommand simulate" -l estimate -d 'Estimate speeds that are neither measured nor in the job file, so that jobs can use these GPU types. `learnt` estimates from other models that were measured on both types; `all` also uses the job files and the table of GPUs [default: setting `estimate`, off]. The job key `estimate` takes precedence' -r -f -a "off\t''
learnt\t''
all\t''"
complete -c hsched -n "__fish_hsched_using_subcommand simulate" -l set -d 'Override a setting for this command; may be given several times (`hsched config show` lists them)' -r
complete -c hsched -n "__fish_hsched_using_subcommand simulate" -l use-all -d 'optimal: use every GPU that the jobs can use'
complete -c hsched -n "__fish_hsched_using_subcommand simulate" -l gang -d 'Place all tasks of a job or none'
complete -c hsched -n "__fish_hsched_using_subcommand simulate" -l exclusive -d 'Run at most one task on a GPU'
complete -c hsched -n "__fish_hsched_using_subcommand simulate" -l bound -d 'Compute a lower bound on the mean completion time of any schedule [default: for up to 1000 jobs]'
complete -c hsched -n "__fish_hsched_using_subcommand simulate" -l no-bound -d 'Do not compute the lower bound'
complete -c hsched -n "__fish_hsched_using_subcommand simulate" -l certificate -d 'Add the certificate to the JSON: the prices that prove the bound'
complete -c hsched -n "__fish_hsched_using_subcommand simulate" -l no-cache -d 'Use only the speeds of the job file, not measured speeds'
complete -c hsched -n "__fish_hsched_using_subcommand simulate" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c hsched -n "__fish_hsched_using_subcommand trace; and not __fish_seen_subcommand_from from-sacct from-philly from-alibaba from-gavel from-sia" -l set -d 'Override a setting for this command; may be given several times (`hsched config show` lists them)' -r
complete -c hsched -n "__fish_hsched_using_subcommand trace; and not __fish_seen_subcommand_from from-sacct from-philly from-alibaba from-gavel from-sia" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c hsched -n "__fish_hsched_using_subcommand trace; and not __fish_seen_subcommand_from from-sacct from-philly from-alibaba from-gavel from-sia" -f -a "from-sacct" -d 'Convert the output of `sacct -P` or `sacct --json`, for example to simulate your own last month'
complete -c hsched -n "__fish_hsched_using_subcommand trace; and not __fish_seen_subcommand_from from-sacct from-philly from-alibaba from-gavel from-sia" -f -a "from-philly" -d 'Convert CSV with the columns `submit_s`, `duration_s` and `num_gpus`, such as the Philly trace'
complete -c hsched -n "__fish_hsched_using_subcommand trace; and not __fish_seen_subcommand_from from-sacct from-philly from-alibaba from-gavel from-sia" -f -a "from-alibaba" -d 'Convert the tasks of Alibaba\'s GPU clusters (CSV with `num_gpu`, `gpu_spec`, `submit_s`, `start_s` and `end_s`)'
complete -c hsched -n "__fish_hsched_using_subcommand trace; and not __fish_seen_subcommand_from from-sacct from-philly from-alibaba from-gavel from-sia" -f -a "from-gavel" -d 'Convert a trace of Gavel, with its table of measured speeds'
complete -c hsched -n "__fish_hsched_using_subcommand trace; and not __fish_seen_subcommand_from from-sacct from-philly from-alibaba from-gavel from-sia" -f -a "from-sia" -d 'Convert a workload of Sia, with its profiles'
complete -c hsched -n "__fish_hsched_using_subcommand trace; and __fish_seen_subcommand_from from-sacct" -l type -d 'GPU type of jobs whose record names no type' -r
complete -c hsched -n "__fish_hsched_using_subcommand trace; and __fish_seen_subcommand_from from-sacct" -s o -l output -d 'Write the trace to this file [default: standard output]' -r -F
complete -c hsched -n "__fish_hsched_using_subcommand trace; and __fish_seen_subcommand_from from-sacct" -l set -d 'Override a setting for this command; may be given several times (`hsched config show` lists them)' -r
complete -c hsched -n "__fish_hsched_using_subcommand trace; and __fish_seen_subcommand_from from-sacct" -l estimate -d 'Let jobs use other GPU types, at speeds estimated from the table of GPUs (`hsched gpus`)'
complete -c hsched -n "__fish_hsched_using_subcommand trace; and __fish_seen_subcommand_from from-sacct" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c hsched -n "__fish_hsched_using_subcommand trace; and __fish_seen_subcommand_from from-philly" -l type -d 'GPU type of the run times in the file' -r
complete -c hsched -n "__fish_hsched_using_subcommand trace; and __fish_seen_subcommand_from from-philly" -s o -l output -d 'Write the trace to this file [default: standard output]' -r -F
complete -c hsched -n "__fish_hsched_using_subcommand trace; and __fish_seen_subcommand_from from-philly" -l set -d 'Override a setting for this command; may be given several times (`hsched config show` lists them)' -r
complete -c hsched -n "__fish_hsched_using_subcommand trace; and __fish_seen_subcommand_from from-philly" -l estimate -d 'Let jobs use other GPU types, at speeds estimated from the table of GPUs (`hsched gpus`)'
complete -c hsched -n "__fish_hsched_using_subcommand trace; and __fish_seen_subcommand_from from-philly" -s h -l help -d 'Print help'
complete -c hsched -n "__fish_hsched_using_subcommand trace; and __fish_seen_subcommand_from from-alibaba" -s o -l output -d 'Write the trace to this file [default: standard output]' -r -F
complete -c hsched -n "__fish_hsched_using_subcommand trace; and __fish_seen_subcommand_from from-alibaba" -l set -d 'Override a setting for this command; may be given several times (`hsched config show` lists them)' -r
complete -c hsched -n "__fish_hsched_using_subcommand trace; and __fish_seen_subcommand_from from-alibaba" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c hsched -n "__fish_hsched_using_subcommand trace; and __fish_seen_subcommand_from from-gavel" -l throughputs -d 'Steps per second by job type, scale factor and GPU type: the JSON of Gavel, or CSV' -r -F
complete -c hsched -n "__fish_hsched_using_subcommand trace; and __fish_seen_subcommand_from from-gavel" -s o -l output -d 'Write the trace to this file [default: standard output]' -r -F
complete -c hsched -n "__fish_hsched_using_subcommand trace; and __fish_seen_subcommand_from from-gavel" -l set -d 'Override a setting for this command; may be given several times (`hsched config show` lists them)' -r
complete -c hsched -n "__fish_hsched_using_subcommand trace; and __fish_seen_subcommand_from from-gavel" -s h -l help -d 'Print help'
complete -c hsched -n "__fish_hsched_using_subcommand trace; and __fish_seen_subcommand_from from-sia" -l profiles -d 'Step times on one GPU: CSV with model, gpu, `local_bsz` and `step_time_s`' -r -F
complete -c hsched -n "__fish_hsched_using_subcommand trace; and __fish_seen_subcommand_from from-sia" -l applications -d 'Size of the training of each application: CSV with application, `samples_per_epoch`, epochs and `model_size_mb`' -r -F
complete -c hsched -n "__fish_hsched_using_subcommand trace; and __fish_seen_subcommand_from from-sia" -l workload -d 'Read only this workload, from a file with the columns trace and workload, such as newtrace/1' -r
complete -c hsched -n "__fish_hsched_using_subcommand trace; and __fish_seen_subcommand_from from-sia" -s o -l output -d 'Write the trace to this file [default: standard output]' -r -F
complete -c hsched -n "__fish_hsched_using_subcommand trace; and __fish_seen_subcommand_from from-sia" -l set -d 'Override a setting for this command; may be given several times (`hsched config show` lists them)' -r
complete -c hsched -n "__fish_hsched_using_subcommand trace; and __fish_seen_subcommand_from from-sia" -s h -l help -d 'Print help'
complete -c hsched -n "__fish_hsched_using_subcommand train-policy" -l traces -d 'Directory of traces: all .yaml, .yml, .json and .csv files in it' -r -F
complete -c hsched -n "__fish_hsched_using_subcommand train-policy" -l clusters -d 'Directory of cluster files (.yaml or .yml); the traces use them in turn' -r -F
complete -c hsched -n "__fish_hsched_using_subcommand train-policy" -s o -l output -d 'File for the network; an existing file is replaced' -r -F
complete -c hsched -n "__fish_hsched_using_subcommand train-policy" -l passes -d 'Number of passes over the traces, with eight runs of each trace in a pass; 0 only imitates mlf-h' -r
complete -c hsched -n "__fish_hsched_using_subcommand train-policy" -l seed -d 'Seed of all random choices' -r
complete -c hsched -n "__fish_hsched_using_subcommand train-policy" -l format -d 'Output format' -r -f -a "table\t'Human-readable text'
json\t'JSON'"
complete -c hsched -n "__fish_hsched_using_subcommand train-policy" -l estimate -d 'Estimate speeds that are neither measured nor in the job file, so that jobs can use these GPU types. `learnt` estimates from other models that were measured on both types; `all` also uses the job files and the table of GPUs [default: setting `estimate`, off]. The job key `estimate` takes precedence' -r -f -a "off\t''
learnt\t''
all\t''"
complete -c hsched -n "__fish_hsched_using_subcommand train-policy" -l set -d 'Override a setting for this command; may be given several times (`hsched config show` lists them)' -r
complete -c hsched -n "__fish_hsched_using_subcommand train-policy" -l dry-run -d 'Check the traces and clusters, without training or writing'
complete -c hsched -n "__fish_hsched_using_subcommand train-policy" -l no-cache -d 'Use only the speeds of the job file, not measured speeds'
complete -c hsched -n "__fish_hsched_using_subcommand train-policy" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c hsched -n "__fish_hsched_using_subcommand check-ddp" -l python -d 'Python interpreter that has your torch' -r
complete -c hsched -n "__fish_hsched_using_subcommand check-ddp" -l device -d 'Device of the ranks. With fewer than four GPUs, the ranks share the GPUs and use gloo' -r -f -a "cpu\t''
cuda\t''"
complete -c hsched -n "__fish_hsched_using_subcommand check-ddp" -l format -d 'Output format' -r -f -a "table\t'Human-readable text'
json\t'JSON'"
complete -c hsched -n "__fish_hsched_using_subcommand check-ddp" -l set -d 'Override a setting for this command; may be given several times (`hsched config show` lists them)' -r
complete -c hsched -n "__fish_hsched_using_subcommand check-ddp" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c hsched -n "__fish_hsched_using_subcommand consolidate" -l output -d 'File for the merged model; an existing file is replaced' -r -F
complete -c hsched -n "__fish_hsched_using_subcommand consolidate" -l format -d 'Output format' -r -f -a "table\t'Human-readable text'
json\t'JSON'"
complete -c hsched -n "__fish_hsched_using_subcommand consolidate" -l set -d 'Override a setting for this command; may be given several times (`hsched config show` lists them)' -r
complete -c hsched -n "__fish_hsched_using_subcommand consolidate" -l dry-run -d 'Check the files and show what would be merged, without writing it'
complete -c hsched -n "__fish_hsched_using_subcommand consolidate" -s h -l help -d 'Print help (see more with \'--help\')'
