//! All integration tests in one binary; each file in this folder is one module.

#![expect(unreachable_pub, reason = "the modules of a test binary share helpers")]
#![expect(clippy::disallowed_methods, reason = "tests run programs, wait for them and read what they wrote")]
#![expect(clippy::panic, reason = "a test that waits in vain should fail")]
#![expect(clippy::expect_used, reason = "a test that expects wrongly should fail")]
#![expect(clippy::print_stdout, reason = "a test that is skipped says why")]

mod bundle_cost;
mod certificate;
mod cli_again;
mod cli_bound;
mod cli_cache;
mod cli_check_ddp;
mod cli_clusters;
mod cli_config;
mod cli_damage;
mod cli_demo;
mod cli_doctor;
mod cli_errors;
mod cli_explain;
mod cli_from;
mod cli_generate;
mod cli_gpus;
mod cli_import;
mod cli_init;
mod cli_inventory;
mod cli_jobs;
mod cli_logs;
mod cli_plan;
mod cli_plan_file;
mod cli_run;
mod cli_run_faults;
mod cli_simulate;
mod cli_state;
mod cli_submit;
mod cli_trace;
mod cli_watch;
mod cli_when;
mod cli_wishes;
mod cold_start;
mod damage;
mod docs;
mod engine_copies;
mod engine_decisions;
mod engine_rules;
mod engine_states;
mod explain;
mod explored;
mod horizon;
mod layers;
mod micro_policies;
mod modules;

mod offered;
mod optimal;
mod oracle;
mod oracle_checks;
mod oracle_milp;
mod oracle_pool;
mod parking;
mod planner_facts;
mod policy_properties;
mod problems;
mod python;
mod queue_calibration;
mod queue_oracle;
mod queue_passes;
mod real_capacity;
mod real_cluster;
mod real_ddp;
mod real_ddp_loop;
mod real_desk;
mod real_doctor;
mod real_failures;
mod real_jobs;
mod real_main_job;
mod real_probe;
mod real_ranks;
mod real_records;
mod real_run;
mod real_setup;
mod real_simulate;
mod real_stop;
mod real_watch;
mod replay;
mod sandbox;
mod shared;
mod simulate;
mod simulate_stories;
mod speed_cache;
mod state_round_trip;
mod status_table;
mod story;
mod story_lines;
mod sweep_example;
mod throughput_names;
mod training;
