//! Functions, here-documents, and text that looks like a block.

use super::super::read;

/// The body of a function is not run, wherever its bracket is.
#[test]
fn functions_are_dropped_with_their_bodies() {
    for function in [
        "cleanup ()\n{\n  rm -rf data\n}",
        "function cleanup {\n  rm -rf data\n}",
        "function cleanup\n{\n  if true; then\n  rm -rf data\n  fi\n}",
        "cleanup() {\n  rm -rf data\n}",
        "cleanup() { rm -rf data; }",
        "cleanup() (\n  rm -rf data\n)",
        "function cleanup() { rm -rf data; }",
    ] {
        let script = format!("#!/bin/bash\n#SBATCH -G1\n{function}\nmodule load cuda\npython a.py\n");
        let imported = read(&script, "job");
        let keys =
            ["setup", "node_setup", "command"].map(|key| imported.keys.get(key).map(ToString::to_string));
        let expected = [None, Some("[\"module load cuda\"]"), Some("\"python a.py\"")];
        assert_eq!(keys.each_ref().map(Option::as_deref), expected, "{script}");
        let said = ": dropped; hsched does not import functions";
        assert!(imported.remarks[0].text.ends_with(said), "{script}: {:?}", imported.remarks);
    }
}

/// Text in quotes opens nothing, and here-documents end at their marker.
#[test]
fn lines_after_quotes_and_documents_are_read() {
    let check = |line: &str, setup: &str| {
        let imported = read(&format!("#!/bin/bash\n#SBATCH -G1\n{line}\npython a.py\n"), "job");
        assert_eq!(imported.keys.get("command"), Some(&serde_json::json!("python a.py")), "{line}");
        assert_eq!(imported.keys.get("setup").map_or(String::new(), ToString::to_string), setup, "{line}");
        imported.remarks
    };
    check("echo \"<< start >>\"", r#"["echo \"<< start >>\""]"#);
    check("echo \"Starting; if it fails, mail me\"", r#"["echo \"Starting; if it fails, mail me\""]"#);
    check("cat <<EOF>c.yaml\nif a; then\nEOF", "");
    check("cat <<\\EOF\npython b.py\nEOF", "");
    check("(\n  tar xf a.tar\n)", r#"["(\ntar xf a.tar\n)"]"#);
    let loops = check("ls | while read f; do\nrm $f\ndone", "");
    assert!(loops[0].text.starts_with("ls | while read f; do …: may train"), "{loops:?}");
    let open = read("#!/bin/bash\n#SBATCH -G1\ncat <<EOF\npython a.py\n", "job");
    assert_eq!(open.remarks[0].text, "cat <<EOF: its end is missing");
}
