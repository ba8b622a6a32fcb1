
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
            cand --set 'Set a key for this command, over all files and variables (see `hsched config show`)'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
            cand -V 'Print version'
            cand --version 'Print version'
            cand inventory 'Show the cluster''s nodes, partitions and GPUs: all, free, used, down, reserved and mine'
            cand plan 'Plan which GPUs each job gets, and how its batch is split over them'
            cand submit 'Write a job script for each placed job and give it to sbatch'
            cand add 'Add jobs for `hsched watch` to place; submits nothing'
            cand watch 'Follow the jobs: count their epochs, learn their speeds, give free GPUs to those that wait, try again what failed'
            cand probe 'Measure how fast jobs are on GPU types of which nobody knows, with short jobs of their own commands'
            cand status 'Show where the jobs stand: GPUs, epochs, predicted and observed times, when they end, what happened last'
            cand cancel 'Cancel jobs: those that wait end at once, those in Slurm''s queue are ended by Slurm'
            cand report 'Report an epoch, from inside a job: for training programs in any language'
            cand gpus 'Show what is known about GPU models: memory, speed, MIG slices, names'
            cand cache 'Show, correct and share the measured speeds'
            cand config 'Show the settings'
            cand doctor 'Check Slurm, its GPUs, the settings and the state directory, and say what to do'
            cand init 'Write a job file and a settings file to begin with'
            cand generate 'Make up a cluster and jobs, to try hsched with or to measure it'
            cand demo 'See what hsched does: plan, submit, watch, learn and re-plan, on an imagined cluster'
            cand check-ddp 'Check that your torch trains rightly with unequal ranks'
        }
        &'hsched;inventory'= {
            cand --cluster 'Read a cluster file instead of asking Slurm'
            cand --from 'Read what somebody saved of a cluster instead of asking Slurm; - reads standard input'
            cand --columns 'The format of the table of --from, where it has no header line'
            cand --format 'How to print it'
            cand --set 'Set a key for this command, over all files and variables (see `hsched config show`)'
            cand --local 'Show this machine''s own GPUs instead of asking Slurm: types, memory, links, who computes on them'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'hsched;plan'= {
            cand --format 'How to print the plan'
            cand -o 'Also write the plan, as JSON, to this file'
            cand --output 'Also write the plan, as JSON, to this file'
            cand --compare 'Compare policies instead: `all`, or names with commas'
            cand --explain 'Say why instead: the GPUs'' prices and all jobs in short, or one job in full'
            cand --cluster 'Read a cluster file instead of asking Slurm'
            cand --from 'Read what somebody saved of a cluster instead of asking Slurm; - reads standard input'
            cand --columns 'The format of the table of --from, where it has no header line'
            cand --policy 'The policy that places jobs. All but optimal use every GPU that the jobs can use'
            cand --objective 'What to minimise'
            cand --alpha 'jps: where its range of categories begins, as a fraction of all'
            cand --beta 'jps: weight of speed against fairness'
            cand --samples 'jps: how many categories it draws'
            cand --seed 'Seed of all random choices'
            cand --capacity 'Which GPUs may be used [default: limits where the settings have a capacity table, else free]'
            cand --estimate 'Also use GPU types that the job file does not list and on which the model was never measured, by estimated speeds: `learnt` from other models that ran on both types, or `all`, also from the job files and the table of GPUs [default: the setting `estimate`, off]. A job''s own key `estimate` counts before this'
            cand --budget 'End the search after this long and take the best plan so far, such as 10s or 2m [default: 1s for optimal and for bounds, no limit for others]'
            cand --set 'Set a key for this command, over all files and variables (see `hsched config show`)'
            cand --use-all 'optimal: leave no GPU idle that the jobs can use'
            cand --pin 'Run on the very nodes of the plan, not only on nodes of their kind'
            cand --no-cache 'Plan by the job file''s speeds alone, not by those measured'
            cand --no-bound 'Do not work out how near the optimum the plan of another policy is'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'hsched;submit'= {
            cand -j 'Only this job; may be given several times'
            cand --job 'Only this job; may be given several times'
            cand --account 'Slurm account'
            cand --partition 'Slurm partition'
            cand --qos 'Slurm quality of service'
            cand --run-id 'Id of this run instead of the time and a random number'
            cand --format 'How to print what was submitted'
            cand --cluster 'Read a cluster file instead of asking Slurm'
            cand --from 'Read what somebody saved of a cluster instead of asking Slurm; - reads standard input'
            cand --columns 'The format of the table of --from, where it has no header line'
            cand --policy 'The policy that places jobs. All but optimal use every GPU that the jobs can use'
            cand --objective 'What to minimise'
            cand --alpha 'jps: where its range of categories begins, as a fraction of all'
            cand --beta 'jps: weight of speed against fairness'
            cand --samples 'jps: how many categories it draws'
            cand --seed 'Seed of all random choices'
            cand --capacity 'Which GPUs may be used [default: limits where the settings have a capacity table, else free]'
            cand --estimate 'Also use GPU types that the job file does not list and on which the model was never measured, by estimated speeds: `learnt` from other models that ran on both types, or `all`, also from the job files and the table of GPUs [default: the setting `estimate`, off]. A job''s own key `estimate` counts before this'
            cand --budget 'End the search after this long and take the best plan so far, such as 10s or 2m [default: 1s for optimal and for bounds, no limit for others]'
            cand --set 'Set a key for this command, over all files and variables (see `hsched config show`)'
            cand --dry-run 'Print the scripts and submit nothing. A job whose script you give to sbatch yourself is not followed by hsched watch'
            cand --restart 'Begin at the first epoch, whatever was done. Checkpoints stay and are yours to remove: a training that finds one goes on from it'
            cand --use-all 'optimal: leave no GPU idle that the jobs can use'
            cand --pin 'Run on the very nodes of the plan, not only on nodes of their kind'
            cand --no-cache 'Plan by the job file''s speeds alone, not by those measured'
            cand --no-bound 'Do not work out how near the optimum the plan of another policy is'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'hsched;add'= {
            cand --account 'Slurm account'
            cand --partition 'Slurm partition'
            cand --qos 'Slurm quality of service'
            cand --estimate 'Also use GPU types that the job file does not list and on which the model was never measured, by estimated speeds: `learnt` from other models that ran on both types, or `all`, also from the job files and the table of GPUs [default: the setting `estimate`, off]. A job''s own key `estimate` counts before this'
            cand --format 'How to print what was added'
            cand --set 'Set a key for this command, over all files and variables (see `hsched config show`)'
            cand --dry-run 'Look at everything, and add nothing'
            cand --restart 'Begin at the first epoch, whatever was done. Checkpoints stay and are yours to remove: a training that finds one goes on from it'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'hsched;watch'= {
            cand --interval 'Time between two looks, such as 30s or 5m'
            cand --moves 'Whether running jobs are stopped to go on on better GPUs. With never, free GPUs go to jobs that wait'
            cand --margin 'auto: how far the time saved must exceed what stopping and starting again costs, as a part of that'
            cand --policy 'The policy that places jobs. All but optimal use every GPU that the jobs can use'
            cand --objective 'What to minimise'
            cand --alpha 'jps: where its range of categories begins, as a fraction of all'
            cand --beta 'jps: weight of speed against fairness'
            cand --samples 'jps: how many categories it draws'
            cand --seed 'Seed of all random choices'
            cand --estimate 'Also use GPU types that the job file does not list and on which the model was never measured, by estimated speeds: `learnt` from other models that ran on both types, or `all`, also from the job files and the table of GPUs [default: the setting `estimate`, off]. A job''s own key `estimate` counts before this'
            cand --format 'How to print what happens: lines for people, or one JSON object a line with time, job, topic and text'
            cand --budget 'End each search after this long and take the best plan so far'
            cand --set 'Set a key for this command, over all files and variables (see `hsched config show`)'
            cand --once 'Take one turn and end'
            cand --forever 'Go on when all jobs have ended: more may be added'
            cand --dry-run 'Say what would be done and why, and do nothing'
            cand --queue 'Also submit jobs that find no free GPUs: they wait in Slurm''s queue for GPUs that others hold'
            cand --pin 'Run on the very nodes of the plan, not only on nodes of their kind'
            cand --use-all 'optimal: leave no GPU idle that the jobs can use'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'hsched;probe'= {
            cand -j 'Only this job; may be given several times'
            cand --job 'Only this job; may be given several times'
            cand --time 'The longest that a probe may run, such as 5m; at least a minute'
            cand --format 'How to print what was measured'
            cand --set 'Set a key for this command, over all files and variables (see `hsched config show`)'
            cand --all 'Also types of which only the job file says a speed'
            cand --dry-run 'Say what would be measured, and submit nothing'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'hsched;status'= {
            cand --format 'How to print it'
            cand --set 'Set a key for this command, over all files and variables (see `hsched config show`)'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'hsched;cancel'= {
            cand --format 'How to print what became of the jobs'
            cand --set 'Set a key for this command, over all files and variables (see `hsched config show`)'
            cand --all 'All jobs that have not ended'
            cand --dry-run 'Say what would be done, and do nothing'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'hsched;report'= {
            cand --epoch 'Number of the epoch that is done, from 1'
            cand --compute-s 'Seconds that this rank computed in it, without waiting for other ranks'
            cand --epoch-s 'Seconds that the epoch took'
            cand --samples 'Samples that this rank trained in it [default: its share by the plan]'
            cand --batch 'Samples of one step of this rank [default: `HSCHED_LOCAL_BATCH`]'
            cand --metric 'A figure such as loss=0.7; may be given several times'
            cand --set 'Set a key for this command, over all files and variables (see `hsched config show`)'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'hsched;gpus'= {
            cand --format 'How to print it'
            cand --set 'Set a key for this command, over all files and variables (see `hsched config show`)'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'hsched;cache'= {
            cand --set 'Set a key for this command, over all files and variables (see `hsched config show`)'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
            cand show 'Show the measured speeds, how sure they are, and where they come from'
            cand set 'Say how fast a model is on a GPU type, until it is measured'
            cand forget 'Forget what is known of a model, on one GPU type or all'
            cand export 'Print all measured speeds, for `hsched cache import`'
            cand import 'Take in the speeds that somebody exported'
        }
        &'hsched;cache;show'= {
            cand --format 'How to print them'
            cand --set 'Set a key for this command, over all files and variables (see `hsched config show`)'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'hsched;cache;set'= {
            cand --precision 'The precision of jobs that name one'
            cand --set 'Set a key for this command, over all files and variables (see `hsched config show`)'
            cand --dry-run 'Say what would change, and change nothing'
            cand -h 'Print help'
            cand --help 'Print help'
        }
        &'hsched;cache;forget'= {
            cand --set 'Set a key for this command, over all files and variables (see `hsched config show`)'
            cand --dry-run 'Say what would be forgotten, and change nothing'
            cand -h 'Print help'
            cand --help 'Print help'
        }
        &'hsched;cache;export'= {
            cand --format 'In which form: JSON has everything, CSV is for spreadsheets'
            cand --set 'Set a key for this command, over all files and variables (see `hsched config show`)'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'hsched;cache;import'= {
            cand --set 'Set a key for this command, over all files and variables (see `hsched config show`)'
            cand --dry-run 'Say what would change, and change nothing'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'hsched;config'= {
            cand --set 'Set a key for this command, over all files and variables (see `hsched config show`)'
            cand -h 'Print help'
            cand --help 'Print help'
            cand show 'Show every setting, its value and where the value comes from'
        }
        &'hsched;config;show'= {
            cand --format 'How to print them'
            cand --set 'Set a key for this command, over all files and variables (see `hsched config show`)'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'hsched;doctor'= {
            cand --format 'How to print it'
            cand --set 'Set a key for this command, over all files and variables (see `hsched config show`)'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'hsched;init'= {
            cand --cluster 'Read a cluster file instead of asking Slurm'
            cand --from 'Read what somebody saved of a cluster instead of asking Slurm; - reads standard input'
            cand --columns 'The format of the table of --from, where it has no header line'
            cand --set 'Set a key for this command, over all files and variables (see `hsched config show`)'
            cand --force 'Overwrite files that exist'
            cand --dry-run 'Print the files instead of writing them'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'hsched;generate'= {
            cand --gpus 'GPUs of the cluster'
            cand --gpus-per-node 'GPUs of a node; the last node has what remains'
            cand --types 'How many GPU types, or which, with commas; others than those above with their speed: v100,l40s=1.4'
            cand --jobs 'Jobs to plan'
            cand --sync 'When gradients are exchanged'
            cand --network-gbps 'Rate between nodes, in Gbit/s'
            cand --intra-node-gbps 'Rate between the GPUs of a node, in Gbit/s'
            cand --seed 'Seed of all random choices'
            cand --format 'How to print what was written'
            cand --set 'Set a key for this command, over all files and variables (see `hsched config show`)'
            cand --mixed 'Let each node hold two types'
            cand --rich 'Give jobs also fixed step times, limits on GPUs and their types, memory, overlap and weights'
            cand --force 'Write over files that are there'
            cand --dry-run 'Print the files and write nothing'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'hsched;demo'= {
            cand --seed 'Seed of the small differences between the ranks'' computing times'
            cand --format 'How to print the story'
            cand --set 'Set a key for this command, over all files and variables (see `hsched config show`)'
            cand --fast 'Do not pause between the lines on a terminal'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'hsched;check-ddp'= {
            cand --python 'The Python that has your torch'
            cand --device 'Where the ranks compute; with fewer than four GPUs they share them and talk by gloo'
            cand --format 'How to print what came out'
            cand --set 'Set a key for this command, over all files and variables (see `hsched config show`)'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
    ]
    $completions[$command]
}
