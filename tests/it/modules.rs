//! No Rust file of this folder is forgotten: each is a module of `main.rs`.

use std::fs;
use std::path::Path;

#[test]
fn every_file_is_a_module() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it");
    let main = fs::read_to_string(folder.join("main.rs")).expect("main.rs");
    for entry in fs::read_dir(&folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.extension().is_none_or(|extension| extension != "rs") {
            continue;
        }
        let name = path.file_stem().and_then(|name| name.to_str()).expect("a name");
        assert!(name == "main" || main.contains(&format!("\nmod {name};")), "{name} is missing in main.rs");
    }
}
