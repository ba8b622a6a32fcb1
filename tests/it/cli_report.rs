//! `--report`, `--svg` and `--csv` of `simulate`, `plan`, `when` and `history`: a page that contains its
//! data, pictures and tables.

use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::sandbox::Sandbox;

const CLUSTER: &str = "nodes: [{name: 'gpu[1-2]', gpus: {v100: 2}}]\n";

/// Three jobs; the third one needs all GPUs, so it must wait for the others.
const TRACE: &str = r#"jobs:
  - {name: "first<b>", gpus: 2, samples_per_epoch: 1000, epochs: 10, global_batch: 10, model_size: 0, throughput: {v100: 5}}
  - {name: second, gpus: 2, samples_per_epoch: 1000, epochs: 10, global_batch: 10, model_size: 0, throughput: {v100: 5}}
  - {name: third, gpus: 4, arrival: 100s, samples_per_epoch: 1000, epochs: 10, global_batch: 10, model_size: 0, throughput: {v100: 5}}
"#;

fn sandbox() -> Sandbox {
    let jobs = TRACE
        .replace("first<b>", "first")
        .replace("throughput: {v100: 5}}", "throughput: {v100: 5}, command: x}");
    let trace = TRACE.replace("first<b>", "first");
    Sandbox::new()
        .file("cluster.yaml", CLUSTER)
        .file("trace.yaml", &trace)
        .file("jobs.yaml", jobs.replace("arrival: 100s, ", ""))
}

/// Returns the data of a page.
fn data(page: &str) -> Value {
    let begin = r#"<script type="application/json" id="hsched">"#;
    let (_, rest) = page.split_once(begin).expect("the data's element");
    let (text, _) = rest.split_once("</script>").expect("its end");
    serde_json::from_str(text).expect("JSON")
}

const SIMULATE: &str = "simulate --trace trace.yaml --cluster cluster.yaml --policy fifo,srtf --seed 5";

#[test]
fn a_simulation_is_a_page_with_everything_in_it() {
    let sandbox = sandbox();
    sandbox.run(&format!("{SIMULATE} --report out.html")).succeeds();
    let page = sandbox.text(&sandbox.work("out.html"));
    let report = data(&page);
    assert_eq!(
        (&report["schema"], &report["kind"], &report["clock"]),
        (&"hsched.report/1".into(), &"simulation".into(), &"elapsed".into())
    );
    assert_eq!(
        (&report["parameters"]["seed"], &report["gpus"].as_array().map(Vec::len)),
        (&5.into(), &Some(4))
    );
    let run = &report["runs"][0];
    assert_eq!((&run["name"], &run["started_s"]), (&"fifo".into(), &serde_json::json!([0.0, 0.0, 1000.0])));
    assert_eq!(
        run["spans"],
        serde_json::json!([
            [0, 0.0, 0.0, 1000.0, 0, 1],
            [1, 0.0, 0.0, 1000.0, 2, 3],
            [2, 1000.0, 1000.0, 1500.0, 0, 1, 2, 3]
        ])
    );
    assert_eq!(run["queue"], serde_json::json!([[0.0, 0.0], [100.0, 1.0], [1000.0, 0.0]]));
    assert_eq!(run["in_use"], serde_json::json!([[0.0, 4.0], [1500.0, 0.0]]));
    assert!(page.contains("third, 15 min 00 s"), "no answer");
    assert!(run["row"]["ratio"].as_f64().is_some_and(|ratio| ratio >= 1.0), "{run}");
    // A second call writes the same bytes.
    sandbox.run(&format!("{SIMULATE} --report again.html")).succeeds();
    assert_eq!(page, sandbox.text(&sandbox.work("again.html")));
}

#[test]
fn pictures_and_tables_for_papers_are_written_beside_it() {
    let sandbox = sandbox();
    sandbox.run(&format!("{SIMULATE} --svg pictures --csv tables")).succeeds();
    for name in ["gantt-fifo", "gantt-srtf", "completion", "queue", "in-use"] {
        let svg = sandbox.text(&sandbox.work(&format!("pictures/{name}.svg")));
        assert!(svg.starts_with("<svg xmlns=") && svg.trim_end().ends_with("</svg>"), "{name}: {svg}");
    }
    let jobs = sandbox.text(&sandbox.work("tables/jobs.csv"));
    assert!(
        jobs.starts_with("policy,job,arrival_s,ended_s,jct_s,started_s\nfifo,first,0.0,1000.0,1000.0,0.0\n"),
        "{jobs}"
    );
    assert_eq!(sandbox.text(&sandbox.work("tables/spans.csv")).lines().count(), 1 + 8 + 12);
    sandbox.run(&format!("{SIMULATE} --sweep restart-cost=0s,60s --svg sweep --csv sweep")).succeeds();
    assert!(
        sandbox
            .text(&sandbox.work("sweep/points.csv"))
            .starts_with("policy,mean_jct_s,mean_jct_s_ci95,ratio,restart_cost_s\n")
    );
    assert!(sandbox.text(&sandbox.work("sweep/points.svg")).contains("mean over bound"));
    // The unit of an axis follows from its times: minutes for 1000 s.
    assert!(sandbox.text(&sandbox.work("pictures/completion.svg")).contains("completion time (min)"));
}

#[test]
fn a_plan_is_a_page() {
    let sandbox = sandbox();
    sandbox.run("plan jobs.yaml --cluster cluster.yaml --policy has --report plan.html").exits(0);
    let report = data(&sandbox.text(&sandbox.work("plan.html")));
    assert_eq!((&report["kind"], &report["jobs"].as_array().map(Vec::len)), (&"plan".into(), &Some(3)));
    let waits = report["runs"][0]["started_s"]
        .as_array()
        .expect("a list")
        .iter()
        .filter(|start| start.is_null())
        .count();
    assert!(waits > 0 && report["notes"].to_string().contains("third"), "{report}");
}

#[test]
fn names_are_replaced_for_strangers() {
    let sandbox = sandbox();
    sandbox.run(&format!("{SIMULATE} --report out.html --anonymise --csv tables --svg tables")).succeeds();
    let texts = ["out.html", "tables/jobs.csv", "tables/spans.csv", "tables/gantt-fifo.svg"]
        .map(|name| sandbox.text(&sandbox.work(name)));
    for (text, word) in
        texts.iter().flat_map(|text| ["third", "gpu1", "trace.yaml", "cluster.yaml"].map(|word| (text, word)))
    {
        assert!(!text.contains(word), "{word} is still there");
    }
    assert_eq!(data(&texts[0])["jobs"][2]["name"], "job-3");
    assert!(texts[0].contains("job-3, 15 min 00 s"));
}

#[test]
fn what_cannot_be_reported_is_said_and_nothing_is_half_written() {
    let sandbox = sandbox();
    let text = sandbox.run(&format!("{SIMULATE} --report nowhere/out.html")).fails(1);
    assert!(text.contains("cannot write nowhere/out.html"), "{text}");
    let text = sandbox.run("history --report out.html").fails(1);
    assert!(text.contains("no jobs to report") && !sandbox.work("out.html").exists(), "{text}");
    assert!(sandbox.run("history --anonymise").fails(2).contains("--anonymise needs --report"));
    let text = sandbox.run("plan jobs.yaml --cluster cluster.yaml --compare all --report out.html").fails(2);
    assert!(text.contains("--report, --svg and --csv are for one plan"), "{text}");
}

#[test]
fn a_state_directory_is_a_page_with_its_sweep() {
    let jobs = r#"jobs:
  - name: lr
    samples_per_epoch: 10
    epochs: 2
    global_batch: 10
    model_size: 0
    max_gpus: 1
    throughput: {cpu: 100}
    command: 'for e in 1 2; do echo "{\"epoch\": $e, \"epoch_s\": 0.2, \"metrics\": {\"val_loss\": $LR.$e}}" >>"$HSCHED_REPORT"; done'
    sweep: {lr: [3, 1]}
"#;
    let sandbox = Sandbox::new().file("sweep.yaml", jobs).variable("PATH", "/usr/local/bin:/usr/bin:/bin");
    sandbox.run("run sweep.yaml --devices cpu:2").exits(0);
    sandbox.run("history --report out.html").exits(0);
    let report = data(&sandbox.text(&sandbox.work("out.html")));
    assert_eq!((&report["kind"], &report["clock"]), (&"history".into(), &"unix".into()));
    let sweep = &report["sweeps"][0];
    assert_eq!(
        (&sweep["name"], &sweep["metric"], &sweep["mode"]),
        (&"lr".into(), &"val_loss".into(), &"min".into())
    );
    assert_eq!(sweep["runs"][1]["curve"], serde_json::json!([[1, 1.1], [2, 1.2]]));
    assert_eq!(
        (&report["epochs"][0]["observed_s"], &report["epochs"][0]["predicted_s"]),
        (&0.2.into(), &0.1.into())
    );
    assert_eq!(report["usage"]["jobs"], 2);
    sandbox.run("history --report out.html --anonymise").exits(0);
    let report = data(&sandbox.text(&sandbox.work("out.html")));
    assert_eq!((&report["clock"], &report["sweeps"][0]["name"]), (&"elapsed".into(), &"sweep-1".into()));
    assert!(report["jobs"][0]["arrival_s"].as_f64().is_some_and(|at| at.abs() < 1000.0), "{report}");
}

/// Returns the page as rendered by a headless browser, and the messages of the page's console; `None` if
/// there is no browser.
fn in_browser(page: &Path) -> Option<(String, String)> {
    let names = ["chromium", "chromium-browser", "google-chrome"];
    let browser = names.into_iter().find(|name| {
        let version =
            Command::new(name).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
        version.is_ok_and(|status| status.success())
    })?;
    let profile = tempfile::tempdir().expect("a folder");
    let done = Command::new(browser)
        .args([
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--enable-logging=stderr",
            "--virtual-time-budget=5000",
        ])
        .arg(format!("--user-data-dir={}", profile.path().display()))
        .args(["--window-size=1280,900", "--dump-dom"])
        .arg(format!("file://{}", page.display()))
        .output()
        .expect("the browser runs");
    let said = String::from_utf8_lossy(&done.stderr)
        .lines()
        .filter(|line| line.contains("CONSOLE"))
        .collect::<Vec<_>>()
        .join("\n");
    Some((String::from_utf8_lossy(&done.stdout).into_owned(), said))
}

#[test]
#[ignore = "opens a browser"]
fn a_browser_draws_the_pages_of_all_commands_without_complaint() {
    let sandbox = sandbox().variable("PATH", "/usr/local/bin:/usr/bin:/bin");
    let repository = crate::real_cluster::repository().display().to_string();
    let when = format!(
        "when {repository}/examples/queue.yaml --snapshot {repository}/examples/queue.json --futures 8"
    );
    // Two jobs fail and the third has too few GPUs; this is also a history.
    let _ = sandbox.run("run jobs.yaml --devices v100:2 --simulated");
    let pages = [
        (
            "plan jobs.yaml --cluster cluster.yaml",
            &["Figures", "GPUs over time", "Jobs", "Completion times"][..],
            &["class=\"bar\"", "No schedule has a mean completion time below the bound."][..],
        ),
        (
            when.as_str(),
            &["In short", "Requests and when they would start", "How this was made"],
            &["resnet101: medians of start and finish of each request", "class=\"best\"", "3 a100"],
        ),
        (
            "history",
            &["Use of GPUs", "How this was made"],
            &["All jobs together; – is not known", "GPU hours"],
        ),
    ];
    for (command, headings, texts) in pages {
        let ran = sandbox.run(&format!("{command} --report out.html"));
        assert!(sandbox.work("out.html").exists(), "{command}: {}", ran.stderr);
        let Some((drawn, said)) = in_browser(&sandbox.work("out.html")) else {
            println!("skipped: there is no chromium");
            return;
        };
        assert_eq!(said, "", "{command}");
        for heading in headings {
            let is_there =
                drawn.contains(&format!(">{heading}</h2>")) || drawn.contains(&format!(">{heading}</h3>"));
            assert!(is_there, "{command}: no {heading}");
        }
        for text in texts {
            assert!(drawn.contains(text), "{command}: no {text}");
        }
        std::fs::remove_file(sandbox.work("out.html")).expect("removed");
    }
}

#[test]
#[ignore = "opens a browser"]
fn a_browser_draws_the_page_without_complaint() {
    let sandbox = sandbox();
    sandbox.run(&format!("{SIMULATE} --report out.html")).succeeds();
    let Some((drawn, said)) = in_browser(&sandbox.work("out.html")) else {
        println!("skipped: there is no chromium");
        return;
    };
    assert_eq!(said, "");
    for heading in
        ["Policies", "GPUs over time", "Queue and use over time", "Completion times", "How this was made"]
    {
        assert!(drawn.contains(&format!(">{heading}</h2>")), "no {heading}");
    }
    // Bars with their jobs, the texts for screen readers, and the summary of the queue.
    assert!(drawn.matches("class=\"bar\"").count() >= 3, "no bars");
    assert!(
        drawn.contains("data-job=\"2\"") && drawn.contains("aria-label=\"GPUs over time: 4 rows, 3 bars."),
        "no labels"
    );
    assert!(drawn.contains("Jobs that wait. fifo: at most 1"), "no summary");
}
