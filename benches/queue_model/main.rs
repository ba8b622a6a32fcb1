//! The model of the queue: its speed, its accuracy on real submissions, and the benefit of choosing by it, as
//! tables: `cargo bench --bench queue_model -- speed|calibration|choice|several [SEED]`.

#![expect(clippy::expect_used, clippy::panic, reason = "a bench that cannot be set up should fail")]
#![expect(clippy::print_stdout, reason = "prints its tables")]
#![expect(clippy::cast_precision_loss, reason = "counts and hours")]
#![expect(clippy::disallowed_methods, reason = "reads its arguments and the submissions")]
#![expect(unreachable_pub, reason = "modules that a test shares")]

mod calibration;
mod choice;
mod foretold;
mod made_up;
mod several;
mod speed;
mod submissions;
mod world;

fn main() {
    let named: Vec<String> = std::env::args().skip(1).filter(|arg| !arg.starts_with('-')).collect();
    let seed = named.iter().find_map(|arg| arg.parse::<u64>().ok());
    let is_wanted = |name: &str| named.is_empty() || named.iter().any(|candidate| candidate == name);
    if is_wanted("speed") {
        speed::main();
    }
    if is_wanted("calibration") {
        calibration::main();
    }
    if is_wanted("choice") {
        choice::main(seed.unwrap_or(0));
    }
    if is_wanted("several") {
        several::main(seed.unwrap_or(0));
    }
}
