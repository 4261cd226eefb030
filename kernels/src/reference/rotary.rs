//! The plain form of a rotation: one head by the angles of its position. Each product is rounded, and then their sum.

/// Rotates pairs of elements by angles, one angle a pair. The elements of a pair are neighbours, or as far apart as
/// there are pairs.
pub fn rotate(head: &mut [f32], cosines: &[f32], sines: &[f32], interleaved: bool) {
    let half = cosines.len();
    for (pair, (cosine, sine)) in cosines.iter().zip(sines).enumerate() {
        let [a, b] = if interleaved { [2 * pair, 2 * pair + 1] } else { [pair, pair + half] };
        let (x, y) = (head[a], head[b]);
        head[a] = cosine * x - sine * y;
        head[b] = sine * x + cosine * y;
    }
}
