//! The plain form of weighted sums at places: one plane after the other. Products are rounded, and are added in the
//! order of the elements.

/// The sums at places of a plane. The offsets are those of the first element that each place reads, then of each second
/// one, and so on; an element that the plane has not is zero.
pub fn blend(plane: &[f32], offsets: &[usize], weights: &[f32], to: &mut [f32]) {
    let places = to.len();
    if places == 0 {
        return;
    }
    to.fill(0.0);
    for (offsets, weights) in offsets.chunks_exact(places).zip(weights.chunks_exact(places)) {
        for ((to, &at), weight) in to.iter_mut().zip(offsets).zip(weights) {
            *to += plane.get(at).copied().unwrap_or_default() * weight;
        }
    }
}
