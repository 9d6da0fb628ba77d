//! The moduli of the hash columns: consecutive primes, no two tables share one (V4.1 §2.4).

/// Primes of every layer and column.
///
/// The rule takes, for each row of heads, the smallest primes from `start` on that no earlier row has: that is,
/// one run of consecutive primes over all columns of all layers.
pub(super) fn columns(layers: usize, columns: usize, start: u64) -> Vec<Vec<u64>> {
    let mut next = start;
    let mut take = || {
        while !is_prime(next) {
            next += 1;
        }
        next += 1;
        next - 1
    };
    (0..layers).map(|_| (0..columns).map(|_| take()).collect()).collect()
}

/// Rows of each layer's table: the sum of its primes.
pub fn table_rows(layers: usize, per_layer: usize, start: u64) -> Vec<u64> {
    columns(layers, per_layer, start).iter().map(|primes| primes.iter().sum()).collect()
}

/// Miller–Rabin with the first twelve primes as bases, which decides every 64-bit number.
fn is_prime(n: u64) -> bool {
    const BASES: [u64; 12] = [2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37];
    if n < 2 {
        return false;
    }
    for base in BASES {
        if n.is_multiple_of(base) {
            return n == base;
        }
    }
    let twos = (n - 1).trailing_zeros();
    let odd = (n - 1) >> twos;
    BASES.iter().all(|&base| {
        let mut x = power(base, odd, n);
        if x == 1 || x == n - 1 {
            return true;
        }
        (1..twos).any(|_| {
            x = product(x, x, n);
            x == n - 1
        })
    })
}

fn product(a: u64, b: u64, n: u64) -> u64 {
    (u128::from(a) * u128::from(b) % u128::from(n)) as u64
}

fn power(mut base: u64, mut exponent: u64, n: u64) -> u64 {
    let mut result = 1;
    while exponent > 0 {
        if exponent & 1 == 1 {
            result = product(result, base, n);
        }
        base = product(base, base, n);
        exponent >>= 1;
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn primality_agrees_with_trial_division() {
        let slow = |n: u64| n > 1 && !(2..n).take_while(|d| d * d <= n).any(|d| n.is_multiple_of(d));
        for n in (0..5000).chain(16_000_000..16_000_300) {
            assert_eq!(is_prime(n), slow(n), "{n}");
        }
        // Carmichael numbers and the largest 64-bit prime.
        for n in [561, 41041, 825265, 3215031751] {
            assert!(!is_prime(n), "{n}");
        }
        assert!(is_prime(18446744073709551557));
    }

    /// V4.1 §2.4.
    #[test]
    fn primes_are_those_of_the_released_model() {
        let primes = columns(2, 24, 16_000_000);
        let first = [
            16000057, 16000079, 16000081, 16000097, 16000121, 16000129, 16000133, 16000183, 16000189,
            16000207, 16000211, 16000253, 16000277, 16000289, 16000307, 16000321, 16000339, 16000381,
            16000393, 16000399, 16000403, 16000409, 16000447, 16000463,
        ];
        let second = [
            16000477, 16000487, 16000499, 16000507, 16000511, 16000573, 16000609, 16000627, 16000667,
            16000669, 16000693, 16000697, 16000711, 16000729, 16000759, 16000769, 16000781, 16000799,
            16000813, 16000819, 16000841, 16000877, 16000879, 16000889,
        ];
        assert_eq!(primes, [first.to_vec(), second.to_vec()]);
        assert_eq!(table_rows(2, 24, 16_000_000), [384006168, 384016682]);
    }
}
