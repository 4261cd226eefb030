//! Booleans as the numbers 0 and 1, in which emitted code computes, and back.

use crate::cpu::multiversion::multiversion;

multiversion! {
    /// Bytes as numbers: any byte but 0 is 1.
    pub(super) fn to_numbers(from: &[u8], to: &mut [f32]) {
        to.iter_mut().zip(from).for_each(|(to, &byte)| *to = f32::from(u8::from(byte != 0)));
    }
}

multiversion! {
    /// Numbers as bytes: any number but 0 is 1, a NaN among them.
    pub(super) fn to_bytes(from: &[f32], to: &mut [u8]) {
        to.iter_mut().zip(from).for_each(|(to, &number)| *to = u8::from(number != 0.0));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Isa;

    #[test]
    fn every_level_takes_all_but_zero_for_true() {
        let bytes: Vec<u8> = (0..=255).chain(0..37).collect();
        let wide = [0.0, 1.0, -0.0, 0.5, f32::NAN, f32::MIN_POSITIVE / 2.0, f32::INFINITY];
        let wide: Vec<f32> = wide.into_iter().cycle().take(101).collect();
        for isa in Isa::ALL {
            let (mut numbers, mut back) = (vec![7.0; bytes.len()], vec![9; wide.len()]);
            to_numbers(isa, &bytes, &mut numbers);
            assert!(
                bytes.iter().zip(&numbers).all(|(&byte, &number)| number == f32::from(u8::from(byte > 0))),
                "{isa}"
            );
            to_bytes(isa, &wide, &mut back);
            assert!(wide.iter().zip(&back).all(|(&number, &byte)| byte == u8::from(number != 0.0)), "{isa}: {back:?}");
        }
    }
}
