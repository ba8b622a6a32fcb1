//! The output for people and programs: tables, stories of turns and simulations.

#![expect(clippy::expect_used, reason = "a test that expects wrongly should fail")]

mod any_story;
mod simulate_stories;
mod status_table;
mod story_lines;
