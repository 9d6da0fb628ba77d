//! The known name that a mistyped one most likely stands for.

/// Longest name for which a suggestion is sought; keeps the work small whatever a text holds.
const LONGEST: usize = 64;

/// The one of `known` nearest to `name`, if it is near enough to be a slip of the fingers.
pub fn nearest<'k>(name: &str, known: &[&'k str]) -> Option<&'k str> {
    if name.len() > LONGEST {
        return None;
    }
    let within = 1 + name.len() / 4;
    let ranked = known.iter().map(|k| (distance(name.as_bytes(), k.as_bytes()), *k));
    ranked.filter(|(d, _)| *d <= within).min_by_key(|(d, _)| *d).map(|(_, k)| k)
}

/// Insertions, deletions and replacements that turn `a` into `b`.
fn distance(a: &[u8], b: &[u8]) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(x != y);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}
