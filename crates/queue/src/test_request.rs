//! A request for tests.

use hsched_model::{Asks, FurtherOptions, GpuAsk, GpuType, Request, RequestId, Seconds};

/// Returns a request for GPUs of a type on each of some nodes, for one minute.
pub(crate) fn test_request(nodes: u32, gpu_type: &str, count: u32) -> Request {
    let gpus = vec![GpuAsk { gpu_type: GpuType::new(gpu_type), count }];
    Request {
        id: RequestId(0),
        asks: Asks { nodes, gpus, ..Asks::default() },
        partition: None,
        account: None,
        limit: Seconds(60.0),
        run: Seconds(60.0),
        further: FurtherOptions::default(),
    }
}
