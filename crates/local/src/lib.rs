//! The GPUs of this machine or of the surrounding allocation: finds them ([`probe`]), and is the
//! [`engine::World`](hsched_engine::World) that starts the ranks of jobs on them under a guard, which ends
//! with all its descendants when hsched ends. It makes no decisions.

mod devices;
mod ended_run;
mod gate;
mod guard;
mod member_work;
mod memory;
mod mps;
mod other_members;
mod parking;
mod pool_world;
pub mod probe;
mod processes;
mod running;
mod slot_memory;
mod slots;
mod starting;
mod switching;
mod wake;
mod world;

pub use self::devices::{Device, Devices, DevicesError};
pub use self::ended_run::EndedRun;
pub use self::guard::{GuardOrder, guard};
pub use self::member_work::{Instructions, MemberWork};
pub use self::mps::MpsDaemon;
pub use self::other_members::{BEFORE_END, MAY_IDLE, NOTICE_BEFORE, OtherMembers, member_nodes};
pub use self::pool_world::{Lead, PoolWorld};
pub use self::slots::{DeviceCount, TooFewDevices};
pub use self::wake::{Wake, Waker};
pub use self::world::{LocalSite, LocalWorld};
