//! Comparisons of whole numbers of 64 bits, in loops that the compiler vectorises. Baseline x86-64 has no comparison of
//! such numbers in vectors.

use super::multiversion::multiversion;

#[inline(always)]
fn pairs<R>(left: &[i64], right: &[i64], to: &mut [R], function: impl Fn(i64, i64) -> R) {
    to.iter_mut().zip(left.iter().zip(right)).for_each(|(to, (&left, &right))| *to = function(left, right));
}

multiversion! {
    /// Whether numbers are equal: 1 or 0.
    pub fn equal(left: &[i64], right: &[i64], to: &mut [u8]) {
        pairs(left, right, to, |left, right| u8::from(left == right));
    }
}

multiversion! {
    /// Whether a number is less than the other: 1 or 0.
    pub fn less(left: &[i64], right: &[i64], to: &mut [u8]) {
        pairs(left, right, to, |left, right| u8::from(left < right));
    }
}

multiversion! {
    /// Whether a number is at most the other: 1 or 0.
    pub fn less_or_equal(left: &[i64], right: &[i64], to: &mut [u8]) {
        pairs(left, right, to, |left, right| u8::from(left <= right));
    }
}

multiversion! {
    /// The greater of two numbers.
    pub fn greater(left: &[i64], right: &[i64], to: &mut [i64]) {
        pairs(left, right, to, i64::max);
    }
}

multiversion! {
    /// The lesser of two numbers.
    pub fn lesser(left: &[i64], right: &[i64], to: &mut [i64]) {
        pairs(left, right, to, i64::min);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Isa;

    #[test]
    fn numbers_compare_as_the_language_compares_them() {
        let values = [i64::MIN, -1 << 32, -7, -1, 0, 1, 7, 1 << 31, 1 << 32, i64::MAX];
        let left: Vec<i64> = (0..997).map(|at| values[at % 10]).collect();
        let right: Vec<i64> = (0..997).map(|at| values[at / 10 % 10]).collect();
        let of = |function: fn(i64, i64) -> i64| -> Vec<i64> {
            left.iter().zip(&right).map(|(&left, &right)| function(left, right)).collect()
        };
        let (mut found, mut bytes) = (vec![0; 997], vec![9; 997]);
        for isa in Isa::ALL {
            type Compare = fn(Isa, &[i64], &[i64], &mut [u8]);
            let comparisons: [(Compare, fn(i64, i64) -> i64); 3] = [
                (equal, |left, right| i64::from(left == right)),
                (less, |left, right| i64::from(left < right)),
                (less_or_equal, |left, right| i64::from(left <= right)),
            ];
            for (compare, expected) in comparisons {
                compare(isa, &left, &right, &mut bytes);
                assert_eq!(bytes.iter().map(|&byte| i64::from(byte)).collect::<Vec<_>>(), of(expected), "{isa}");
            }
            greater(isa, &left, &right, &mut found);
            assert_eq!(found, of(i64::max), "{isa}");
            lesser(isa, &left, &right, &mut found);
            assert_eq!(found, of(i64::min), "{isa}");
        }
    }
}
