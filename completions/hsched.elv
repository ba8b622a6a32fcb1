
use builtin;
use str;

set edit:completion:arg-completer[hsched] = {|@words|
    fn spaces {|n|
        builtin:repeat $n ' ' | str:join ''
    }
    fn cand {|text desc|
        edit:complex-candidate $text &display=$text' '(spaces (- 14 (wcswidth $text)))$desc
    }
    var command = 'hsched'
    for word $words[1..-1] {
        if (str:has-prefix $word '-') {
            break
        }
        set command = $command';'$word
    }
    var completions = [
        &'hsched'= {
            cand --set 'Override a setting for this command; may be given several times (`hsched config show` lists them)'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
            cand -V 'Print version'
            cand --version 'Print version'
            cand inventory 'Show the cluster''s nodes, partitions and GPUs'
            cand plan 'Plan which GPUs each job gets and how its batch is split over them'
            cand run 'Run jobs on the GPUs of this machine, without Slurm'
            cand submit 'Write a job script for each placed job and submit it with sbatch'
            cand add 'Add jobs for `hsched watch` to place; submits nothing'
            cand watch 'Follow the jobs: count epochs, measure speeds, submit waiting jobs to free GPUs, retry failed jobs'
            cand probe 'Measure the speed of jobs on GPU types without a known speed, with short Slurm jobs'
            cand status 'Show all jobs: state, GPUs, epochs, predicted and observed epoch times, expected end'
            cand logs 'Print what a job has printed'
            cand cancel 'Cancel jobs, waiting or in Slurm''s queue'
            cand report 'Report that an epoch is done, from inside a job, for training programs in any language'
            cand gpus 'Show known GPU models: memory, speed, MIG slices, names'
            cand cache 'Show, edit and share the measured speeds'
            cand config 'Show the settings'
            cand doctor 'Check Slurm, its GPUs, the settings and the state directory, and say what to do'
            cand init 'Write a job file and a settings file to start from'
            cand import 'Make a job file from a batch script'
            cand generate 'Generate a random cluster and random jobs, to try or benchmark hsched'
            cand demo 'Show what hsched does on a simulated cluster: plan, submit, watch, measure and re-plan'
            cand simulate 'Simulate policies on a trace of jobs that come and go: what they would do to your week'
            cand trace 'Convert what ran on a cluster, or a published trace, into a trace for `hsched simulate`'
            cand check-ddp 'Check that your version of torch computes correct gradients with unequal local batches'
        }
        &'hsched;inventory'= {
            cand --cluster 'Read a cluster file instead of asking Slurm'
            cand --from 'Read saved Slurm output instead of asking Slurm; - reads standard input'
            cand --columns 'Format of a table without a header line given to --from'
            cand --format 'Output format'
            cand --set 'Override a setting for this command; may be given several times (`hsched config show` lists them)'
            cand --local 'Show the GPUs of this machine instead of asking Slurm: types, memory, links, processes'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'hsched;plan'= {
            cand --format 'Output format'
            cand -o 'Also write the plan to this file, as JSON'
            cand --output 'Also write the plan to this file, as JSON'
            cand --compare 'Compare policies instead of printing a plan: `all`, or names separated by commas'
            cand --explain 'Explain the plan instead of printing it: prices of the GPUs and all jobs in short, or one job in full'
            cand --cluster 'Read a cluster file instead of asking Slurm'
            cand --from 'Read saved Slurm output instead of asking Slurm; - reads standard input'
            cand --columns 'Format of a table without a header line given to --from'
            cand --policy 'Policy that places the jobs. All but optimal use every GPU that the jobs can use'
            cand --objective 'Objective to minimise'
            cand --alpha 'jps: where the sampled range of categories begins, as a fraction of all'
            cand --beta 'jps: weight of speed versus fairness'
            cand --samples 'jps: number of categories to sample'
            cand --seed 'Seed of all random choices'
            cand --capacity 'Which GPUs the plan may use [default: limits if the setting `capacity` is set, else free]'
            cand --estimate 'Estimate missing speeds, so that jobs may use GPU types that their file does not list and on which their model was never measured: `learnt` from other models measured on both types, `all` also from the job files and the table of GPUs [default: setting `estimate`, off]. The job key `estimate` takes precedence'
            cand --budget 'Stop the search after this time and use the best plan found so far, such as 10s or 2m [default: 1s for optimal and for lower bounds, unlimited for other policies]'
            cand --set 'Override a setting for this command; may be given several times (`hsched config show` lists them)'
            cand --use-all 'optimal: use every GPU that the jobs can use'
            cand --pin 'Request exactly the nodes of the plan, not any nodes with the same GPUs'
            cand --no-cache 'Use only the speeds of the job file, not measured speeds'
            cand --no-bound 'Do not compute a lower bound for plans of policies other than optimal'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'hsched;run'= {
            cand --devices 'Imagine these devices, such as cpu:4 or v100:2,t4:2, instead of looking for GPUs. Programs then see no GPU'
            cand --policy 'Policy that decides who gets which devices, and when jobs make room for others'
            cand --objective 'Objective to minimise'
            cand --alpha 'jps: where the sampled range of categories begins, as a fraction of all'
            cand --beta 'jps: weight of speed versus fairness'
            cand --samples 'jps: number of categories to sample'
            cand --seed 'Seed of all random choices'
            cand --estimate 'Estimate missing speeds, so that jobs may use GPU types that their file does not list and on which their model was never measured: `learnt` from other models measured on both types, `all` also from the job files and the table of GPUs [default: setting `estimate`, off]. The job key `estimate` takes precedence'
            cand --format 'Output format: text, or one JSON object per line with time, job, topic and text'
            cand --budget 'Stop each search after this time and use the best plan found so far'
            cand --set 'Override a setting for this command; may be given several times (`hsched config show` lists them)'
            cand --restart 'Start the jobs of JOBS over at the first epoch. Checkpoints are not deleted: remove them, or the training program resumes from them'
            cand --dry-run 'Show what would be started and why, without doing it'
            cand --use-all 'optimal: use every GPU that the jobs can use'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'hsched;submit'= {
            cand -j 'Submit only this job; may be given several times'
            cand --job 'Submit only this job; may be given several times'
            cand --account 'Slurm account'
            cand --partition 'Slurm partition'
            cand --qos 'Slurm quality of service'
            cand --run-id 'Id of this run [default: the time and a random number]'
            cand --format 'Output format'
            cand --gpus 'With --together: the GPUs of each node, such as v100:4 or v100:2,t4:2'
            cand --nodes 'With --together: the number of nodes'
            cand --time 'With --together: how long the allocation lasts, such as 12h'
            cand --cluster 'Read a cluster file instead of asking Slurm'
            cand --from 'Read saved Slurm output instead of asking Slurm; - reads standard input'
            cand --columns 'Format of a table without a header line given to --from'
            cand --policy 'Policy that places the jobs. All but optimal use every GPU that the jobs can use'
            cand --objective 'Objective to minimise'
            cand --alpha 'jps: where the sampled range of categories begins, as a fraction of all'
            cand --beta 'jps: weight of speed versus fairness'
            cand --samples 'jps: number of categories to sample'
            cand --seed 'Seed of all random choices'
            cand --capacity 'Which GPUs the plan may use [default: limits if the setting `capacity` is set, else free]'
            cand --estimate 'Estimate missing speeds, so that jobs may use GPU types that their file does not list and on which their model was never measured: `learnt` from other models measured on both types, `all` also from the job files and the table of GPUs [default: setting `estimate`, off]. The job key `estimate` takes precedence'
            cand --budget 'Stop the search after this time and use the best plan found so far, such as 10s or 2m [default: 1s for optimal and for lower bounds, unlimited for other policies]'
            cand --set 'Override a setting for this command; may be given several times (`hsched config show` lists them)'
            cand --dry-run 'Print the scripts and submit nothing. If you submit a script yourself, `hsched watch` does not follow that job'
            cand --restart 'Start over at the first epoch. Checkpoints are not deleted: remove them, or the training program resumes from them'
            cand --together 'Submit one Slurm job in which hsched run runs all jobs, instead of one for each'
            cand --use-all 'optimal: use every GPU that the jobs can use'
            cand --pin 'Request exactly the nodes of the plan, not any nodes with the same GPUs'
            cand --no-cache 'Use only the speeds of the job file, not measured speeds'
            cand --no-bound 'Do not compute a lower bound for plans of policies other than optimal'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'hsched;add'= {
            cand --account 'Slurm account'
            cand --partition 'Slurm partition'
            cand --qos 'Slurm quality of service'
            cand --estimate 'Estimate missing speeds, so that jobs may use GPU types that their file does not list and on which their model was never measured: `learnt` from other models measured on both types, `all` also from the job files and the table of GPUs [default: setting `estimate`, off]. The job key `estimate` takes precedence'
            cand --policy 'Policy that places the jobs. All but optimal use every GPU that the jobs can use'
            cand --objective 'Objective to minimise'
            cand --alpha 'jps: where the sampled range of categories begins, as a fraction of all'
            cand --beta 'jps: weight of speed versus fairness'
            cand --samples 'jps: number of categories to sample'
            cand --seed 'Seed of all random choices'
            cand --format 'Output format'
            cand --set 'Override a setting for this command; may be given several times (`hsched config show` lists them)'
            cand --dry-run 'Show what would be added, and add nothing'
            cand --restart 'Start over at the first epoch. Checkpoints are not deleted: remove them, or the training program resumes from them'
            cand --use-all 'optimal: use every GPU that the jobs can use'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'hsched;watch'= {
            cand --interval 'Time between two turns, such as 30s or 5m'
            cand --moves 'Whether to stop running jobs to move them to better GPUs. With never, free GPUs only go to waiting jobs'
            cand --margin 'auto: move a job only if the time saved exceeds the cost of the restart by this fraction of the cost'
            cand --objective 'Objective to minimise'
            cand --alpha 'jps: where the sampled range of categories begins, as a fraction of all'
            cand --beta 'jps: weight of speed versus fairness'
            cand --samples 'jps: number of categories to sample'
            cand --seed 'Seed of all random choices'
            cand --estimate 'Estimate missing speeds, so that jobs may use GPU types that their file does not list and on which their model was never measured: `learnt` from other models measured on both types, `all` also from the job files and the table of GPUs [default: setting `estimate`, off]. The job key `estimate` takes precedence'
            cand --format 'Output format: text, or one JSON object per line with time, job, topic and text'
            cand --budget 'Stop each search after this time and use the best plan found so far'
            cand --policy 'Policy that places the jobs. All but optimal use every GPU that the jobs can use'
            cand --set 'Override a setting for this command; may be given several times (`hsched config show` lists them)'
            cand --once 'Run one turn and exit'
            cand --forever 'Keep running when all jobs have ended, for jobs that are added later'
            cand --dry-run 'Show what would be done and why, without doing it'
            cand --queue 'Also submit jobs for which no GPUs are free: they wait in Slurm''s queue'
            cand --pin 'Request exactly the nodes of the plan, not any nodes with the same GPUs'
            cand --use-all 'optimal: use every GPU that the jobs can use'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'hsched;probe'= {
            cand -j 'Probe only this job; may be given several times'
            cand --job 'Probe only this job; may be given several times'
            cand --time 'Time limit of a probe, such as 5m; at least one minute'
            cand --format 'Output format'
            cand --set 'Override a setting for this command; may be given several times (`hsched config show` lists them)'
            cand --all 'Also probe GPU types whose speed is known only from the job file'
            cand --dry-run 'Show what would be measured, and submit nothing'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'hsched;status'= {
            cand --format 'Output format'
            cand --set 'Override a setting for this command; may be given several times (`hsched config show` lists them)'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'hsched;logs'= {
            cand --tail 'Print only the last lines; with --follow, begin with them'
            cand --run 'Print the output of this run (`hsched status JOB` lists them)'
            cand --attempt 'Print the output of this submission, counted from 1'
            cand --set 'Override a setting for this command; may be given several times (`hsched config show` lists them)'
            cand -f 'Keep printing as the output grows, over moves and retries, until the job has ended'
            cand --follow 'Keep printing as the output grows, over moves and retries, until the job has ended'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'hsched;cancel'= {
            cand --format 'Output format'
            cand --set 'Override a setting for this command; may be given several times (`hsched config show` lists them)'
            cand --all 'All jobs that have not ended'
            cand --dry-run 'Show what would be cancelled, and cancel nothing'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'hsched;report'= {
            cand --epoch 'Number of the finished epoch, from 1'
            cand --compute-s 'Seconds that this rank computed in the epoch, without waiting for other ranks'
            cand --epoch-s 'Seconds that the epoch took'
            cand --samples 'Samples that this rank trained in the epoch [default: its share in the plan]'
            cand --batch 'Local batch of this rank [default: `HSCHED_LOCAL_BATCH`]'
            cand --metric 'A metric such as loss=0.7; may be given several times'
            cand --set 'Override a setting for this command; may be given several times (`hsched config show` lists them)'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'hsched;gpus'= {
            cand --format 'Output format'
            cand --set 'Override a setting for this command; may be given several times (`hsched config show` lists them)'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'hsched;cache'= {
            cand --set 'Override a setting for this command; may be given several times (`hsched config show` lists them)'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
            cand show 'Show the measured speeds with their errors and sources'
            cand set 'Set the speed of a model on a GPU type, until it is measured'
            cand forget 'Delete the speeds of a model, on one GPU type or all'
            cand export 'Print all measured speeds, for `hsched cache import`'
            cand import 'Import speeds that somebody exported'
        }
        &'hsched;cache;show'= {
            cand --format 'Output format'
            cand --set 'Override a setting for this command; may be given several times (`hsched config show` lists them)'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'hsched;cache;set'= {
            cand --precision 'Precision, for jobs that set the key `precision`'
            cand --set 'Override a setting for this command; may be given several times (`hsched config show` lists them)'
            cand --dry-run 'Show what would change, and change nothing'
            cand -h 'Print help'
            cand --help 'Print help'
        }
        &'hsched;cache;forget'= {
            cand --set 'Override a setting for this command; may be given several times (`hsched config show` lists them)'
            cand --dry-run 'Show what would be deleted, and change nothing'
            cand -h 'Print help'
            cand --help 'Print help'
        }
        &'hsched;cache;export'= {
            cand --format 'Output format: JSON is complete, CSV is for spreadsheets'
            cand --set 'Override a setting for this command; may be given several times (`hsched config show` lists them)'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'hsched;cache;import'= {
            cand --set 'Override a setting for this command; may be given several times (`hsched config show` lists them)'
            cand --dry-run 'Show what would change, and change nothing'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'hsched;config'= {
            cand --set 'Override a setting for this command; may be given several times (`hsched config show` lists them)'
            cand -h 'Print help'
            cand --help 'Print help'
            cand show 'Show every setting, its value and its source'
        }
        &'hsched;config;show'= {
            cand --format 'Output format'
            cand --set 'Override a setting for this command; may be given several times (`hsched config show` lists them)'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'hsched;doctor'= {
            cand --format 'Output format'
            cand --set 'Override a setting for this command; may be given several times (`hsched config show` lists them)'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'hsched;init'= {
            cand --cluster 'Read a cluster file instead of asking Slurm'
            cand --from 'Read saved Slurm output instead of asking Slurm; - reads standard input'
            cand --columns 'Format of a table without a header line given to --from'
            cand --set 'Override a setting for this command; may be given several times (`hsched config show` lists them)'
            cand --force 'Overwrite existing files'
            cand --dry-run 'Print the files instead of writing them'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'hsched;import'= {
            cand -o 'Write to this file, which must not exist, instead of stdout'
            cand --output 'Write to this file, which must not exist, instead of stdout'
            cand --format 'Output format; JSON has no comments'
            cand --set 'Override a setting for this command; may be given several times (`hsched config show` lists them)'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'hsched;generate'= {
            cand --gpus 'Number of GPUs in the cluster'
            cand --gpus-per-node 'GPUs per node; the last node gets the remainder'
            cand --types 'Number of GPU types, or their names separated by commas; types not listed above need a speed: v100,l40s=1.4'
            cand --jobs 'Number of jobs'
            cand --sync 'When gradients are exchanged'
            cand --network-gbps 'Bandwidth between nodes, in Gbit/s'
            cand --intra-node-gbps 'Bandwidth between the GPUs of a node, in Gbit/s'
            cand --seed 'Random seed'
            cand --format 'Output format'
            cand --set 'Override a setting for this command; may be given several times (`hsched config show` lists them)'
            cand --mixed 'Put two GPU types into each node'
            cand --rich 'Also generate fixed step costs, limits on GPU counts and types, memory limits, overlap and weights'
            cand --force 'Overwrite existing files'
            cand --dry-run 'Print the files and write nothing'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
            cand trace 'Generate a random trace for `hsched simulate`, after the rules of published studies'
        }
        &'hsched;generate;trace'= {
            cand --rules 'Rules by which jobs are made'
            cand --throughputs 'Gavel''s table of steps per second (its JSON, or CSV), for --rules gavel'
            cand --types 'GPU types for --rules heavy-tails: a number, or names separated by commas; types without a known speed need one: v100,l40s=1.4'
            cand --no-faster-than 'Make no GPU type faster than this one, for --rules gavel: most of Gavel''s published figures were made so, with v100'
            cand --sync 'When gradients are exchanged, for --rules paper'
            cand --jobs 'Number of jobs'
            cand --gap 'Mean time between arrivals'
            cand --recorded 'Take arrivals, lengths and numbers of GPUs from CSV with `submit_s`, `duration_s` and `num_gpus`, such as the Philly trace'
            cand --load 'Move arrivals apart or together so that the jobs ask for this part of the cluster'
            cand --cluster 'Read a cluster file instead of asking Slurm'
            cand --from 'Read saved Slurm output instead of asking Slurm; - reads standard input'
            cand --columns 'Format of a table without a header line given to --from'
            cand --seed 'Random seed'
            cand -o 'Write the trace to this file [default: standard output]'
            cand --output 'Write the trace to this file [default: standard output]'
            cand --set 'Override a setting for this command; may be given several times (`hsched config show` lists them)'
            cand --single-gpu 'Give every job of --rules gavel one GPU'
            cand --mouldable 'Let jobs run on other numbers of GPUs than they ask for'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'hsched;demo'= {
            cand --seed 'Seed of the small random differences between the compute times of ranks'
            cand --format 'Output format'
            cand --set 'Override a setting for this command; may be given several times (`hsched config show` lists them)'
            cand --fast 'Do not pause between lines'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'hsched;simulate'= {
            cand --trace 'Trace: a job file (YAML or JSON) or CSV; - reads standard input'
            cand --cluster 'Read a cluster file instead of asking Slurm'
            cand --from 'Read saved Slurm output instead of asking Slurm; - reads standard input'
            cand --columns 'Format of a table without a header line given to --from'
            cand --policy 'Policies, separated by commas. Those that `hsched plan` has place all jobs again whenever one comes or goes'
            cand --execution 'Whether each task computes alone, at any time, as in the papers, or all GPUs of a job together, as on a cluster'
            cand --assign 'hare: whether a task goes to the GPU that is free first (available), on which it ends first (finish), or also into time between earlier tasks (insert)'
            cand --groups 'hlas: which GPUs are given out together: gpus (each alone), nodes (those of a node), or the number of groups, which are made as equal as possible'
            cand --thresholds 'hlas: service of an average group at which a job goes one level down, rising, such as 5m,10m,20m [default: 5 rounds of the median job, then four times twice as much]'
            cand --promote 'hlas: a job that has waited for more than so many times its service since its last round goes to the first level [default: never]'
            cand --round 'Decide only at multiples of this'
            cand --rounds 'End after so many rounds'
            cand --restart-cost 'Time lost by every restart [default: the job key `checkpoint.restart_cost`, else the setting `restart_cost`]'
            cand --lose 'What a stopped job loses: nothing, or the epoch under way'
            cand --queue-wait 'Decide as `hsched watch --moves auto` does on a cluster that others use, too: no running job is stopped only to wait, and policies over time do not stop jobs without the key `checkpoint`. Every move waits this long in the queue, such as 0s'
            cand --repack 'Whether running jobs move to other nodes of the same type so that a job on several nodes comes together on one: no, where there is room, or also where others make room'
            cand --noise 'Policies see each job''s work off by a random factor between 1 - NOISE and 1 + NOISE'
            cand --job-failures 'Mean time between failures of a running job [default: none fail]'
            cand --node-failures 'Mean time between failures of a node [default: none fail]'
            cand --node-repair 'How long a failed node is down'
            cand --seed 'Seed of all random choices'
            cand --sweep 'Repeat for several values: load=0.5,0.8,1 seed=0..9 restart-cost=0s,60s noise=0,0.3; may be given several times'
            cand --events 'Write all events to this file as JSON lines, policy by policy; - writes them to standard output'
            cand --format 'Output format'
            cand --estimate 'Estimate missing speeds, so that jobs may use GPU types that their file does not list and on which their model was never measured: `learnt` from other models measured on both types, `all` also from the job files and the table of GPUs [default: setting `estimate`, off]. The job key `estimate` takes precedence'
            cand --set 'Override a setting for this command; may be given several times (`hsched config show` lists them)'
            cand --bound 'Compute a lower bound on the mean completion time of any schedule [default: for up to 1000 jobs]'
            cand --no-bound 'Do not compute the lower bound'
            cand --certificate 'Add the prices that prove the bound to the JSON, so that anybody can compute it again'
            cand --no-cache 'Use only the speeds of the job file, not measured speeds'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'hsched;trace'= {
            cand --set 'Override a setting for this command; may be given several times (`hsched config show` lists them)'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
            cand from-sacct 'Convert the output of `sacct -P`, so that you can simulate your own last month'
            cand from-philly 'Convert CSV with the columns `submit_s`, `duration_s` and `num_gpus`, such as the Philly trace'
            cand from-alibaba 'Convert the tasks of Alibaba''s GPU clusters (CSV with `num_gpu`, `gpu_spec`, `submit_s`, `start_s` and `end_s`)'
            cand from-gavel 'Convert a trace of Gavel''s, with its table of measured speeds'
            cand from-sia 'Convert a workload of Sia''s, with its profiles'
        }
        &'hsched;trace;from-sacct'= {
            cand --type 'The type of GPUs that the accounting does not name'
            cand -o 'Write the trace to this file [default: standard output]'
            cand --output 'Write the trace to this file [default: standard output]'
            cand --set 'Override a setting for this command; may be given several times (`hsched config show` lists them)'
            cand --estimate 'Let jobs use other GPU types, at speeds estimated from the table of GPUs (`hsched gpus`)'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'hsched;trace;from-philly'= {
            cand --type 'The GPU type on which the jobs run as long as the file says'
            cand -o 'Write the trace to this file [default: standard output]'
            cand --output 'Write the trace to this file [default: standard output]'
            cand --set 'Override a setting for this command; may be given several times (`hsched config show` lists them)'
            cand --estimate 'Let jobs use other GPU types, at speeds estimated from the table of GPUs (`hsched gpus`)'
            cand -h 'Print help'
            cand --help 'Print help'
        }
        &'hsched;trace;from-alibaba'= {
            cand -o 'Write the trace to this file [default: standard output]'
            cand --output 'Write the trace to this file [default: standard output]'
            cand --set 'Override a setting for this command; may be given several times (`hsched config show` lists them)'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'hsched;trace;from-gavel'= {
            cand --throughputs 'Steps per second by job type, scale factor and GPU type: Gavel''s JSON, or CSV'
            cand -o 'Write the trace to this file [default: standard output]'
            cand --output 'Write the trace to this file [default: standard output]'
            cand --set 'Override a setting for this command; may be given several times (`hsched config show` lists them)'
            cand -h 'Print help'
            cand --help 'Print help'
        }
        &'hsched;trace;from-sia'= {
            cand --profiles 'Step times on one GPU: CSV with model, gpu, `local_bsz` and `step_time_s`'
            cand --applications 'How much each application trains: CSV with application, `samples_per_epoch`, epochs and `model_size_mb`'
            cand --workload 'Only this workload of a file with columns trace and workload, such as newtrace/1'
            cand -o 'Write the trace to this file [default: standard output]'
            cand --output 'Write the trace to this file [default: standard output]'
            cand --set 'Override a setting for this command; may be given several times (`hsched config show` lists them)'
            cand -h 'Print help'
            cand --help 'Print help'
        }
        &'hsched;check-ddp'= {
            cand --python 'Python interpreter that has your torch'
            cand --device 'Device of the ranks; with fewer than four GPUs the ranks share them and use gloo'
            cand --format 'Output format'
            cand --set 'Override a setting for this command; may be given several times (`hsched config show` lists them)'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
    ]
    $completions[$command]
}
