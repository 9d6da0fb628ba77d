//! Choice of experts and their weights (V4.1 §2.9).

use super::error::{Fault, index};
use super::sum::softplus;
use std::cmp::Ordering;

/// `router` on rows of `bias.len()` logits: expert ids and weights, in order of rank.
///
/// A NaN ranks below every number. It is chosen only where fewer than k numbers are left, and then makes all
/// weights of its row NaN.
pub(super) fn router(logits: &[f32], bias: &[f32], k: usize, scale: f32) -> (Vec<i32>, Vec<f32>) {
    let (mut ids, mut weights) = (Vec::new(), Vec::new());
    for row in logits.chunks(bias.len().max(1)) {
        let scores: Vec<f32> = row.iter().map(|v| softplus(*v).sqrt()).collect();
        let ranks: Vec<f32> = scores.iter().zip(bias).map(|(s, b)| s + b).collect();
        let mut order: Vec<usize> = (0..ranks.len()).collect();
        // Stable: equal ranks keep the lower expert first.
        order.sort_by(|a, b| match (ranks[*a].is_nan(), ranks[*b].is_nan()) {
            (false, false) => ranks[*b].partial_cmp(&ranks[*a]).unwrap_or(Ordering::Equal),
            (a, b) => a.cmp(&b),
        });
        order.truncate(k);
        let sum = order.iter().fold(0.0, |s, e| s + scores[*e]) + 1e-20;
        ids.extend(order.iter().map(|e| *e as i32));
        weights.extend(order.iter().map(|e| scores[*e] / sum * scale));
    }
    (ids, weights)
}

/// `moe.group` of `[rows, choices]` experts below `count`: where each expert's choices begin, the choices, their rows.
pub(super) fn group(experts: &[i32], choices: usize, count: usize) -> Result<[Vec<i32>; 3], Fault> {
    let mut by_expert: Vec<Vec<i32>> = vec![Vec::new(); count];
    for (i, &expert) in experts.iter().enumerate() {
        by_expert[index("experts", i, expert.into(), count)?].push(i as i32);
    }
    let mut offsets = vec![0];
    for pairs in &by_expert {
        offsets.push(offsets[offsets.len() - 1] + pairs.len() as i32);
    }
    let pairs = by_expert.concat();
    let rows = pairs.iter().map(|p| p / choices.max(1) as i32).collect();
    Ok([offsets, pairs, rows])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sorted_choices_are_a_permutation_for_any_number_of_rows() {
        let (choices, count) = (3, 8);
        let mut random = 1u32;
        for rows in 0..=128usize {
            let mut id = || {
                random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                (random >> 29) as i32
            };
            let ids: Vec<i32> = (0..rows * choices).map(|_| id()).collect();
            let [offsets, pairs, of_rows] = group(&ids, choices, count).unwrap();
            let mut seen = vec![false; ids.len()];
            for e in 0..count {
                let span = &pairs[offsets[e] as usize..offsets[e + 1] as usize];
                assert!(span.is_sorted(), "stable");
                for p in span {
                    assert_eq!(ids[*p as usize], e as i32);
                    assert!(!std::mem::replace(&mut seen[*p as usize], true), "each choice once");
                }
            }
            assert!(seen.into_iter().all(|s| s), "every choice");
            assert_eq!(of_rows, pairs.iter().map(|p| p / choices as i32).collect::<Vec<i32>>());
        }
    }

    #[test]
    fn all_rows_may_go_to_one_expert_and_others_get_none() {
        let [offsets, pairs, rows] = group(&[3; 37], 1, 5).unwrap();
        assert_eq!(offsets, [0, 0, 0, 0, 37, 37]);
        assert_eq!(pairs, (0..37).collect::<Vec<i32>>());
        assert_eq!(rows, pairs);
        assert_eq!(
            group(&[0, 5], 2, 5),
            Err(Fault::Range { operand: "experts", at: 1, value: 5, low: 0, limit: 5 })
        );
    }
}
