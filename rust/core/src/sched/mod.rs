//! From a program to a result: fusion groups, an order of steps, memory by liveness, threads, devices.
//!
//! Knows programs and buffers, never derivative rules.

mod arena;
mod bodies;
mod cache;
mod compilation;
mod compiled;
mod device;
mod device_plan;
mod fingerprint;
mod frame;
mod fuse;
mod group_code;
mod homes;
#[cfg(test)]
mod laid_out_tests;
mod loop_detection;
mod loop_plans;
mod looped;
mod matmul_epilogue;
mod matrix_passes;
mod placement;
mod plan;
mod planner;
mod profile;
mod replay;
mod reversal;
mod revolve;
mod room;
mod row_values;
mod run;
#[cfg(feature = "linalg")]
mod scalar_systems;
mod scalars;
mod spreads;
mod stages;
mod strips;
mod threads;
mod turns;

pub use cache::{clear_plans, lock_plans, num_plans, plan, plan_optimized, replay};
pub use compilation::lock_compiler;
pub use device::{Backend, Device, PROCESSOR, device, devices, register_backend};
pub use device_plan::{DevicePlan, DeviceStep, Task};
pub use fingerprint::Fingerprint;
pub use frame::Frame;
pub use fuse::groups;
pub use placement::{Place, device_of, run};
pub use plan::Plan;
pub use profile::{Counts, Phase, Profile, Work, is_profiled, note, timed};
pub use replay::Replay;
pub use stages::for_replays;
pub use threads::{WIDE_COPY, copied, num_threads, same_bytes, set_num_threads};
