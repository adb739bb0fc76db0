//! From a program to a result: fusion groups, an order of steps, memory by liveness, threads.
//!
//! Knows programs and buffers, never derivative rules.

mod barriers;
mod cache;
mod fuse;
mod parts;
mod plan;
mod planner;
mod pool;
mod profile;
mod repeat;
mod replay;
mod rows;
mod run;
mod strips;

pub use cache::{clear_plans, lock_plans, num_plans, plan, plan_optimized};
pub use fuse::groups;
pub use plan::Plan;
pub use pool::{copied, num_threads, set_num_threads};
pub use profile::{Counts, Profile, note};
pub use replay::{Frame, Replay};
pub use run::run;
