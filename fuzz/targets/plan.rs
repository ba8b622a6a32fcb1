//! Plan files, read and checked as by `hsched submit`.
#![no_main]

use hsched_plan::verify;
use hsched_model::formats::jobs;
use hsched_plan::plan_file::PlanFile;

libfuzzer_sys::fuzz_target!(|text: &str| {
    let Ok(file) = PlanFile::parse(text) else { return };
    let specs: Vec<String> = file.jobs.iter().map(|job| job.spec.to_string()).collect();
    let Ok(jobs) = jobs::parse(&format!(r#"{{"jobs": [{}]}}"#, specs.join(","))) else { return };
    let Ok(problem) = file.problem(&jobs) else { return };
    let Ok(plan) = file.plan(&problem) else { return };
    if let Ok(checked) = verify(&problem, plan) {
        let _ = file.check(&problem, &checked);
    }
    let _ = file.device_order();
});
