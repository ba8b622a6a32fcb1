//! The GPUs of this machine, or of the allocation that hsched runs in, as an [`engine::World`](hsched_engine::World):
//! starts a job's ranks under a guard, which ends with everything below it when hsched does. It decides nothing.

mod desk;
mod devices;
mod ended_run;
mod fellows;
mod gate;
mod guard;
mod memory;
mod parking;
mod pool_world;
mod processes;
mod running;
mod switching;
mod wake;
mod world;

pub use self::desk::{Desk, Told};
pub use self::devices::{Device, Devices, DevicesError};
pub use self::ended_run::EndedRun;
pub use self::fellows::{Fellows, member_nodes};
pub use self::guard::{Order, guard};
pub use self::pool_world::{Lead, PoolWorld};
pub use self::wake::{Wake, Waker};
pub use self::world::{LocalSite, LocalWorld};
