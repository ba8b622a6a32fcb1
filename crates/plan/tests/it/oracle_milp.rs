//! An oracle by integer programming: one binary variable for each job and each way to take GPUs from nodes.

use hsched_plan::{JobModel, Objective, Problem};
use microlp::{ComparisonOp, Error, OptimizationDirection, Variable};

use crate::oracle;
use hsched_problems::bundle_cost::bundles;

/// GPUs of one type on one node.
struct Stock {
    node: usize,
    ty: usize,
    count: u32,
}

/// A choice of the program: its variable, its GPUs by stock, its completion time.
struct Choice {
    variable: Variable,
    taken: Vec<u32>,
    time: f64,
}

/// Returns the number of ways to take GPUs from nodes: at least the number of variables that a job adds.
pub fn size(problem: &Problem) -> usize {
    stocks(problem).iter().map(|stock| stock.count as usize + 1).product()
}

/// Returns the objective of the best plan that gives every job a GPU; `None` if there is no legal plan.
pub fn best(problem: &Problem) -> Option<f64> {
    let stocks = stocks(problem);
    let counts: Vec<u32> = stocks.iter().map(|stock| stock.count).collect();
    let ways = bundles(&counts);
    let legal: Vec<Vec<(&Vec<u32>, f64)>> = problem
        .jobs
        .iter()
        .map(|job| ways.iter().filter_map(|way| Some((way, time(problem, job, &stocks, way)?))).collect())
        .collect();
    // Times near 1 suit the solver's tolerances.
    let unit = legal.iter().flatten().map(|(_, time)| *time).min_by(f64::total_cmp)?;
    let mut program = microlp::Problem::new(OptimizationDirection::Minimize);
    let makespan = problem.objective == Objective::Makespan;
    let last = program.add_var(if makespan { 1.0 } else { 0.0 }, (0.0, f64::INFINITY));
    let mut jobs: Vec<Vec<Choice>> = Vec::new();
    for (job, legal) in problem.jobs.iter().zip(&legal) {
        let weight = match problem.objective {
            // Late jobs have costs beyond the solver's tolerances.
            Objective::Deadlines => unreachable!("oracle and oracle_pool know deadlines"),
            Objective::MeanJct => 1.0,
            Objective::Weighted => job.weight,
            Objective::Makespan => 0.0,
        };
        let choices = legal.iter().map(|(way, time)| Choice {
            variable: program.add_binary_var(weight * time / unit),
            taken: (*way).clone(),
            time: *time,
        });
        let choices: Vec<Choice> = choices.collect();
        program.add_constraint(terms(&choices, |_| 1.0), ComparisonOp::Eq, 1.0);
        if makespan {
            let mut row = terms(&choices, |choice| choice.time / unit);
            row.push((last, -1.0));
            program.add_constraint(row, ComparisonOp::Le, 0.0);
        }
        jobs.push(choices);
    }
    for (index, stock) in stocks.iter().enumerate() {
        let row: Vec<_> =
            jobs.iter().flat_map(|choices| terms(choices, |choice| f64::from(choice.taken[index]))).collect();
        program.add_constraint(row, ComparisonOp::Le, f64::from(stock.count));
    }
    let solution = match program.solve() {
        Err(Error::Infeasible) => return None,
        solved => solved.expect("solves").into_solution().expect("is not interrupted"),
    };
    let chosen = |choices: &Vec<Choice>| {
        choices.iter().find(|choice| solution.var_value(choice.variable) > 0.5).expect("one is chosen").time
    };
    Some(oracle::objective(problem, &jobs.iter().map(chosen).collect::<Vec<_>>()))
}

fn stocks(problem: &Problem) -> Vec<Stock> {
    let nodes = problem.nodes.iter().enumerate();
    let stocks = nodes.flat_map(|(node, worker_node)| {
        worker_node.gpus.iter().enumerate().map(move |(ty, &count)| Stock { node, ty, count })
    });
    stocks.filter(|stock| stock.count > 0).collect()
}

fn time(problem: &Problem, job: &JobModel, stocks: &[Stock], taken: &[u32]) -> Option<f64> {
    let workers =
        stocks.iter().zip(taken).flat_map(|(stock, &count)| (0..count).map(|_| (stock.node, stock.ty)));
    oracle::time(problem, job, &workers.collect::<Vec<_>>())
}

fn terms(choices: &[Choice], factor: impl Fn(&Choice) -> f64) -> Vec<(Variable, f64)> {
    choices.iter().map(|choice| (choice.variable, factor(choice))).collect()
}
