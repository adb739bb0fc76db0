//! From a program to a result: fusion groups, an order of steps, memory by liveness, threads.
//!
//! Knows programs and buffers, never derivative rules.

mod cache;
mod fuse;
mod loop_detection;
mod loop_plans;
mod matmul_epilogue;
mod plan;
mod planner;
mod profile;
mod replay;
mod row_values;
mod run;
mod stages;
mod threads;

pub use cache::{clear_plans, lock_plans, num_plans, plan, plan_optimized};
pub use fuse::groups;
pub use plan::Plan;
pub use profile::{Counts, Phase, Profile, Work, note, timed};
pub use replay::{Frame, Replay};
pub use run::run;
pub use threads::{copied, num_threads, set_num_threads};
