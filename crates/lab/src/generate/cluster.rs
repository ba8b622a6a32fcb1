//! A generated cluster: equal nodes, divided evenly among the GPU types.

use super::gpu_speed::GpuSpeed;
use super::random::Random;
use super::recipe::{Recipe, RecipeError};
use hsched_model::{Cluster, GpuStock, Node, NodeName};

/// Returns the cluster of a recipe.
///
/// Nodes of one type are adjacent. In a mixed cluster, the types alternate, and some GPUs of each node with
/// several GPUs are of a second type.
///
/// # Errors
/// If there are fewer nodes than GPU types.
pub fn cluster(recipe: &Recipe) -> Result<Cluster, RecipeError> {
    let count = recipe.node_count()?;
    let mut random = Random::new(recipe.seed, 1);
    let mut left = recipe.gpus;
    let digits = count.to_string().len();
    let mut nodes = Vec::new();
    for number in 0..count {
        let size = left.min(recipe.gpus_per_node);
        left -= size;
        let gpus = if recipe.mixed {
            mixed_node(recipe, number, size, &mut random)
        } else {
            let types = recipe.types.len() as u64;
            // With 7 nodes and 3 types, node 0 has the first type and node 6 the last.
            let index = usize::try_from(u64::from(number) * types / u64::from(count)).unwrap_or(0);
            vec![stock(&recipe.types[index], size)]
        };
        nodes.push(Node { gpus, ..Node::new(name(number + 1, digits)) });
    }
    let (network, intra_node) = (Some(recipe.network), Some(recipe.intra_node));
    Ok(Cluster { network, intra_node, nodes, partitions: Vec::new() })
}

#[expect(clippy::expect_used, reason = "a letter and digits are a name")]
fn name(number: u32, digits: usize) -> NodeName {
    NodeName::new(&format!("g{number:0digits$}")).expect("a name")
}

fn mixed_node(recipe: &Recipe, number: u32, size: u32, random: &mut Random) -> Vec<GpuStock> {
    let types = u32::try_from(recipe.types.len()).unwrap_or(u32::MAX);
    let main_type = number % types;
    if types < 2 || size < 2 {
        return vec![stock(&recipe.types[main_type as usize], size)];
    }
    let other = (main_type + random.whole(1, types - 1)) % types;
    let share = random.whole(1, size - 1);
    vec![stock(&recipe.types[main_type as usize], size - share), stock(&recipe.types[other as usize], share)]
}

fn stock(gpu_speed: &GpuSpeed, total: u32) -> GpuStock {
    GpuStock { gpu_type: gpu_speed.gpu_type.clone(), total, used: 0, memory: gpu_speed.memory }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generate::jobs::tests::recipe;

    /// Returns the GPU counts of the nodes by type, as text.
    fn shape(recipe: &Recipe) -> Vec<String> {
        let entry = |stock: &GpuStock| format!("{} {}", stock.total, stock.gpu_type);
        let node = |node: &Node| node.gpus.iter().map(entry).collect::<Vec<_>>().join(" + ");
        cluster(recipe).expect("a cluster").nodes.iter().map(node).collect()
    }

    #[test]
    fn nodes_are_divided_evenly_and_the_last_has_what_remains() {
        let recipe = Recipe { gpus: 22, ..recipe() };
        assert_eq!(shape(&recipe), ["5 v100", "5 v100", "5 p100", "5 p100", "2 t4"]);
    }

    #[test]
    fn mixed_nodes_hold_two_types_and_the_same_number_of_gpus() {
        let recipe = Recipe { mixed: true, gpus: 60, ..recipe() };
        let made = cluster(&recipe).expect("a cluster");
        assert!(made.nodes.iter().all(|node| node.gpus.len() == 2 && node.gpu_total() == 5));
        assert!(made.nodes.iter().all(|node| node.gpus[0].gpu_type != node.gpus[1].gpu_type));
        assert_ne!(shape(&recipe), shape(&Recipe { seed: 1, ..recipe.clone() }));
    }

    #[test]
    fn more_types_than_nodes_are_refused() {
        let error = cluster(&Recipe { gpus: 10, ..recipe() }).expect_err("two nodes");
        assert_eq!(error.to_string(), "10 GPUs make 2 nodes of up to 5, too few for 3 GPU types");
    }
}
