//! `numpy.random.default_rng(seed).integers(0, bound)` for 64-bit bounds: SeedSequence, PCG64 and Lemire's method.

/// numpy's default generator.
pub(super) struct Generator {
    state: u128,
    increment: u128,
}

const MULTIPLIER: u128 = 0x2360_ed05_1fc6_5da4_4385_df64_9fcc_f645;

impl Generator {
    /// The generator of a seed.
    pub(super) fn new(seed: u64) -> Self {
        let words = seed_words(seed);
        let pair = |at: usize| u128::from(words[at]) << 64 | u128::from(words[at + 1]);
        let increment = pair(2) << 1 | 1;
        let mut generator = Generator { state: 0, increment };
        generator.step();
        generator.state = generator.state.wrapping_add(pair(0));
        generator.step();
        generator
    }

    fn step(&mut self) {
        self.state = self.state.wrapping_mul(MULTIPLIER).wrapping_add(self.increment);
    }

    fn next(&mut self) -> u64 {
        self.step();
        let folded = (self.state >> 64) as u64 ^ self.state as u64;
        folded.rotate_right((self.state >> 122) as u32)
    }

    /// A number below `bound`. numpy takes another path for bounds up to 2³²; no vocabulary here is that large.
    pub(super) fn below(&mut self, bound: u64) -> u64 {
        if bound <= 1 {
            return 0;
        }
        let threshold = bound.wrapping_neg() % bound;
        loop {
            let wide = u128::from(self.next()) * u128::from(bound);
            if wide as u64 >= threshold {
                return (wide >> 64) as u64;
            }
        }
    }
}

/// The four state words that `SeedSequence(seed)` generates.
fn seed_words(seed: u64) -> [u64; 4] {
    const XSHIFT: u32 = 16;
    let entropy = [seed as u32, (seed >> 32) as u32, 0, 0];
    let mut constant = 0x43b0_d7e5_u32;
    let mut hash = |value: u32| {
        let value = value ^ constant;
        constant = constant.wrapping_mul(0x931e_8875);
        let value = value.wrapping_mul(constant);
        value ^ value >> XSHIFT
    };
    let mix = |x: u32, y: u32| {
        let value = x.wrapping_mul(0xca01_f9dd).wrapping_sub(y.wrapping_mul(0x4973_f715));
        value ^ value >> XSHIFT
    };
    let mut pool = entropy.map(&mut hash);
    for from in 0..4 {
        for to in 0..4 {
            if from != to {
                pool[to] = mix(pool[to], hash(pool[from]));
            }
        }
    }
    let mut constant = 0x8b51_f9dd_u32;
    let mut word = |at: usize| {
        let value = pool[at % 4] ^ constant;
        constant = constant.wrapping_mul(0x58f3_8ded);
        let value = value.wrapping_mul(constant);
        u64::from(value ^ value >> XSHIFT)
    };
    std::array::from_fn(|i| word(2 * i) | word(2 * i + 1) << 32)
}
