//! Reports of ranks, given as literal lines.

use super::*;

fn odd(folder: &Path, epochs: u64, metric: Option<&str>) -> Option<String> {
    look(folder, 1, 0, (epochs, metric), Time(9.0)).expect("reads").odd
}

#[test]
fn an_epoch_is_done_when_rank_0_says_so() {
    let folder = tempfile::tempdir().expect("a directory");
    let write = |rank: usize, text: &str| {
        fs::write(folder.path().join(format!("rank-{rank}.jsonl")), text).expect("writes");
    };
    let read = |done| epochs(folder.path(), 2, done, Time(9.0)).expect("reads");
    assert!(read(0).is_empty());
    write(
        1,
        "{\"epoch\": 1, \"samples\": 20, \"compute_s\": 2.0}\n{\"epoch\": 2, \"samples\": 21, \"compute_s\": 2.1}\n",
    );
    assert!(read(0).is_empty());
    write(
        0,
        "{\"probe\": [[8, 0.1], [0, 1.0]], \"rank\": 0}\n{\"epoch\": 1, \"samples\": 40, \"compute_s\": 3.5, \"epoch_s\": 4.0, \"metrics\": {\"epoch\": 7}}\n\
         nonsense\n{\"epoch\": 1, \"samples\": 1}\n{\"epoch\": 2, \"sam",
    );
    let seen = read(0);
    assert_eq!((seen.len(), seen[0].epoch, seen[0].length), (1, 1, Some(Seconds(4.0))));
    let ranks: Vec<(usize, u64)> = seen[0].ranks.iter().map(|rank| (rank.rank, rank.samples)).collect();
    assert_eq!(ranks, [(0, 40), (1, 20)]);
    let probed = |rank: usize| seen[0].ranks[rank].probes.iter().map(|timed| timed.batch).collect::<Vec<_>>();
    assert_eq!((probed(0), probed(1)), (vec![8], vec![]));
    let trials = probes(folder.path()).expect("reads");
    assert_eq!(trials, [StepTiming { batch: 8, time: Seconds(0.1) }]);
    assert!(read(1).is_empty());
}

#[test]
fn metrics_are_read_beside_and_under_metrics() {
    let folder = tempfile::tempdir().expect("a directory");
    let text = "{\"epoch\": 1, \"rank\": 0, \"batch\": 8, \"val_loss\": 0.3, \"lr\": 9, \"name\": \"x\", \"metrics\": {\"lr\": 0.1}}\n";
    fs::write(folder.path().join("rank-0.jsonl"), text).expect("writes");
    let expected = [("lr".to_owned(), 0.1), ("val_loss".to_owned(), 0.3)];
    assert_eq!(epochs(folder.path(), 1, 0, Time(1.0)).expect("reads")[0].metrics, expected);
    let missing = |metric: &str| odd(folder.path(), 1, Some(metric));
    assert_eq!(missing("val_loss"), None);
    let said = missing("acc").expect("a remark");
    assert!(said.contains("the reports have only lr, val_loss"), "{said}");
}

#[test]
fn lines_that_do_not_count_are_named() {
    let folder = tempfile::tempdir().expect("a directory");
    let said = |text: &str| {
        fs::write(folder.path().join("rank-0.jsonl"), text).expect("writes");
        odd(folder.path(), 2, None).map(|odd| odd.replace(&folder.path().display().to_string(), "REPORT"))
    };
    let check = |text: &str, expected: &str| assert_eq!(said(text).as_deref(), Some(expected), "{text}");
    assert_eq!(said("{\"epoch\": 1}\n\n{\"other\": 1}\n{\"epoch\": 2}\n{\"epo"), None);
    check(
        "{\"epoch\": 1}\n{'epoch': 2}\n{}\nx\n",
        "line 2 of REPORT/rank-0.jsonl cannot be read, key must be a string: {'epoch': 2}",
    );
    check(
        "{\"epoch\": 1, \"samples\": 5, \"compute_s\": 2}\n{\"epoch\": 2, \"compute_s\": 2}\n",
        "line 2 of REPORT/rank-0.jsonl has compute_s without samples, so nothing is learnt from it",
    );
    check("{\"epoch\": 0}\n", "line 1 of REPORT/rank-0.jsonl reports epoch 0, but epochs count from 1");
    check(
        "{\"epoch\": 2}\n{\"epoch\": 3}\n{\"epoch\": 4}\n",
        "line 2 of REPORT/rank-0.jsonl reports epoch 3, but the job has 2 epochs",
    );
    let of_command = odd(folder.path(), 1, None).expect("a remark");
    assert!(
        of_command.ends_with("reports epoch 2, but the job has 1 epoch; add epochs: N to the job"),
        "{of_command}"
    );
}

#[test]
fn fields_that_are_ignored_are_named_once_and_void_no_epoch() {
    let folder = tempfile::tempdir().expect("a directory");
    let path = folder.path().join("rank-0.jsonl");
    let text = "{\"epoch\": 1, \"samples\": 36000.0, \"compute_s\": 2, \"loss\": 0.5}\n\
                {\"epoch\": 2, \"samples\": \"many\", \"compute_s\": 2, \"loss\": NaN}\n\
                {\"epoch\": 3, \"samples\": \"many\", \"compute_s\": , \"loss\": -Infinity}\n";
    fs::write(&path, text).expect("writes");
    let seen = epochs(folder.path(), 1, 0, Time(9.0)).expect("reads");
    let samples = |report: &EpochReport| report.ranks.first().map(|rank| rank.samples);
    assert_eq!(seen.iter().map(samples).collect::<Vec<_>>(), [Some(36000), None, None]);
    assert_eq!((seen[0].metrics.len(), seen[1].metrics.len()), (1, 0));
    let said = odd(folder.path(), 9, None).expect("a remark");
    let expected = "compute_s is \"\" in line 3, loss is NaN in line 2, samples is \"many\" in line 2";
    assert_eq!(said, format!("ignored in {}: {expected}", path.display()));
}

#[test]
fn what_a_speed_lacks_is_named() {
    let folder = tempfile::tempdir().expect("a directory");
    assert_eq!(lacking(folder.path()), None);
    let said = |more: &str| {
        let text = format!("{{\"epoch\": 1{more}}}\n");
        fs::write(folder.path().join("rank-0.jsonl"), text).expect("writes");
        lacking(folder.path())
    };
    assert_eq!(said(", \"compute_s\": 1"), Some("no samples"));
    assert_eq!(said(", \"samples\": 1, \"compute_s\": 0"), Some("no compute_s"));
    assert_eq!(said(""), Some("neither samples nor compute_s"));
    assert_eq!(said(", \"samples\": 1, \"compute_s\": 1"), None);
}

#[test]
fn a_metric_that_is_never_reported_is_named() {
    let folder = tempfile::tempdir().expect("a directory");
    let said = |epochs: u64, name: &str| {
        let line =
            |epoch: u64| format!("{{\"epoch\": {epoch}, \"metrics\": {{\"loss\": 1, \"acc\": null}}}}\n");
        let text: String = (1..=epochs).map(line).collect();
        fs::write(folder.path().join("rank-0.jsonl"), text).expect("writes");
        odd(folder.path(), 90, Some(name))
    };
    assert_eq!(odd(folder.path(), 1, Some("acc")), None);
    assert_eq!((said(5, "acc"), said(90, "loss")), (None, None));
    let expected = "the target metric is acc, but the reports have only loss";
    assert_eq!(said(6, "acc").as_deref(), Some(expected));
}

#[test]
fn a_batch_script_says_where_its_output_begins() {
    let folder = tempfile::tempdir().expect("a directory");
    assert_eq!(begin(folder.path()).expect("reads"), None);
    fs::write(folder.path().join("begins"), "4096\n5000\n").expect("writes");
    assert_eq!(begin(folder.path()).expect("reads"), Some(4096));
}

#[test]
fn a_batch_script_leaves_its_status() {
    let folder = tempfile::tempdir().expect("a directory");
    let read = |id: Option<u32>| word(folder.path(), id.map(JobId)).expect("reads");
    assert_eq!(read(Some(7)), None);
    let text = "7 1\n17 0\n18 85 saved\n19 85 interrupted unhandled\n7 85 interrupted\n";
    fs::write(folder.path().join("ends"), text).expect("writes");
    let word = |id: u32, status: u8, saved: Option<bool>| {
        Some(LastWord { job_id: JobId(id), status, saved, unhandled: id == 19 })
    };
    assert_eq!(read(Some(19)), word(19, 85, Some(false)));
    assert_eq!(read(Some(7)), word(7, 85, Some(false)));
    assert_eq!(read(Some(18)), word(18, 85, Some(true)));
    assert_eq!(read(Some(17)), word(17, 0, None));
    assert_eq!(read(Some(1)), None);
    assert_eq!(read(None), word(7, 85, Some(false)));
}

#[test]
fn the_last_word_of_processes_is_that_of_the_submission_that_they_went_on_for() {
    let folder = tempfile::tempdir().expect("a directory");
    let [before, after] = ["a", "b"].map(|name| folder.path().join(name));
    for path in [&before, &after] {
        fs::create_dir(path).expect("a folder");
    }
    take_over(&before, &after, 12).expect("writes");
    assert_eq!((begin(&after).expect("reads"), word(&after, None).expect("reads")), (Some(12), None));
    fs::write(before.join("ends"), "7 0\n").expect("writes");
    let last = word(&after, Some(JobId(7))).expect("reads").map(|word| word.status);
    assert_eq!(last, Some(0));
    assert_eq!(written(&after), None);
}

#[test]
fn ranks_that_all_returned_before_a_stop_are_done() {
    let folder = tempfile::tempdir().expect("a folder");
    let returned = |ranks, nodes| all_returned(folder.path(), ranks, nodes).expect("reads");
    let check = |ranks: usize, expected: bool| {
        assert_eq!((returned(ranks, 1), returned(ranks, 2)), (expected, expected), "{ranks}");
    };
    check(1, false);
    fs::write(folder.path().join(".returned.7.0.1.0"), "").expect("a mark");
    check(1, true);
    check(2, false);
    fs::write(folder.path().join(".returned.7.0.1.1"), "").expect("a mark");
    check(2, true);
    // The rank script writes its mark only if the request has not reached its node.
    fs::write(folder.path().join(".stop.7.0.1"), "").expect("a mark");
    assert_eq!((returned(2, 1), returned(2, 2)), (true, false));
    fs::write(folder.path().join(".stopped.7.0.1"), "").expect("a mark");
    check(2, false);
    assert!(!all_returned(&folder.path().join("none"), 1, 1).expect("reads"));
}
