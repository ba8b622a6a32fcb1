//! `hsched curve` on logs of every kind.

use serde_json::Value;

use crate::sandbox::Sandbox;

/// A curve with a known prediction.
const CASE: &str = r#"{"mode": "min", "epochs": 24, "rule": "epochs", "when_busy": "best", "busy": true,
  "history": [[1, 1.0], [2, 0.60], [3, 0.40], [4, 0.31], [5, 0.26], [6, 0.235], [7, 0.222], [8, 0.216], [9, 0.213], [10, 0.211],
    [11, 0.2105], [12, 0.2102], [13, 0.2101], [14, 0.2103], [15, 0.2100], [16, 0.2102], [17, 0.2101], [18, 0.2100]]}"#;

fn near(value: &Value, expected: f64) {
    assert!(
        value.as_f64().is_some_and(|number| (number - expected).abs() < 1e-8),
        "{value} is not {expected}"
    );
}

#[test]
fn a_case_is_answered_exactly() {
    let json = Sandbox::new().file("c.json", CASE).run("curve --history c.json --format json").json();
    assert_eq!((json["rule"].as_str(), json["decision"].as_str()), (Some("best"), Some("stop")));
    assert_eq!((json["reason"].as_str(), json["best_epoch"].as_u64()), (Some("nothing to gain"), Some(15)));
    near(&json["predicted"], 0.209_583_903_8);
    near(&json["spread"], 0.003_538_132_227);
    near(&json["probability"], 0.004_376_930_504);
}

/// Returns a log of thirty epochs with a metric that rises towards 0.9.
fn rising(line: impl Fn(u32, f64) -> String) -> String {
    (1..=30).map(|epoch| line(epoch, 0.9 - 0.5 / f64::from(epoch)) + "\n").collect()
}

#[test]
fn logs_of_every_kind_give_the_same_answer() {
    let csv = format!("epoch,acc\n{}", rising(|epoch, value| format!("{epoch},{value}")));
    let lines = rising(|epoch, value| format!("{{\"epoch\": {epoch}, \"metrics\": {{\"acc\": {value}}}}}"));
    let sandbox = Sandbox::new().file("log.csv", csv).file("log.jsonl", lines);
    let [csv, lines] = ["log.csv", "log.jsonl"]
        .map(|file| sandbox.run(&format!("curve {file} --epochs 60 --format json")).succeeds());
    assert_eq!(csv, lines);
    let text = sandbox.run("curve log.csv --epochs 60 --target 0.95 --give-up --svg out.svg").succeeds();
    assert!(text.contains('●') && text.contains("stop: hopeless (the target is out of reach)"), "{text}");
    assert!(sandbox.text(&sandbox.work("out.svg")).starts_with("<svg "));
}

#[test]
fn what_is_missing_or_wrong_is_said() {
    let sandbox = Sandbox::new()
        .file("two.csv", "epoch,a,b\n1,2,3\n2,2,3\n")
        .file("long.csv", format!("epoch,acc\n{}", rising(|epoch, value| format!("{epoch},{value}"))))
        .file("none.csv", "x\n1\n")
        .file("bad.json", "{\"mode\": \"up\", \"epochs\": 9, \"history\": [[1, 2]]}")
        .file("bytes", [0xff_u8, 0xfe, 0x00]);
    let check = |arguments: &str, expected: &str| {
        let ran = sandbox.run(&format!("curve {arguments}"));
        assert_eq!(ran.code, Some(78), "{ran:?}");
        assert!(ran.stderr.contains(expected), "{ran:?}");
    };
    check("two.csv", "hint: choose one with --metric NAME: a, b");
    check("two.csv --metric c", "hint: it has: a, b");
    check("two.csv --metric a --epochs 1", "is already at epoch 2, beyond --epochs 1");
    check("none.csv", "no rows with an epoch");
    check("bad.json", "mode must be min or max, got \"up\"");
    check("bytes", "neither UTF-8 text nor a TensorBoard event file");
    check("two.csv --metric a --confidence 2", "confidence must be");
    check("long.csv --epochs 1000000000000", "too far from epoch 30 for a prediction");
    check("long.csv --epochs 3001", "hint: give at most --epochs 3000, 100 times the epochs of the log");
    sandbox.run("curve long.csv --epochs 3000").succeeds();
    let few = sandbox.run("curve two.csv --metric a").succeeds();
    assert!(few.contains("too few reports for a prediction, which needs 6"), "{few}");
    let json = sandbox.run("curve two.csv --metric a --epochs 9 --format json").json();
    assert_eq!(
        (&json["schema"], &json["metric"], &json["epochs"], &json["epochs_done"], &json["predicted"]),
        (&"hsched.curve/1".into(), &"a".into(), &9.into(), &2.into(), &Value::Null)
    );
    assert_eq!(json["notes"], serde_json::json!(["too few reports for a prediction, which needs 6"]));
}
