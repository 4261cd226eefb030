//! The last answers of a cache that one user remembers: a few keys, compared and not hashed.
//!
//! A node whose shape has not changed asks no cache, nor does a node whose shapes take turns. It compares keys of its
//! own that it does not share, so this takes a few nanoseconds where a look-up takes some tens.

use std::hash::BuildHasher;
use std::sync::Arc;

use super::{Builder, Cache, CacheError, Key, Outcome};

/// Keys that are remembered.
const MOST: usize = 6;

/// An answer that is remembered.
struct Known<K: Key> {
    key: K,
    value: Arc<K::Value>,
}

/// The last six values that one user got from a [`Cache`]. They live as long as they are remembered, whatever the cache
/// evicts or [replaces](Cache::put) meanwhile.
///
/// ```
/// use kiln_cache::{Built, Cache, Limits, Memo, Outcome};
/// use kiln_key::Key;
///
/// /// A table of squares.
/// #[derive(Clone, Debug, PartialEq, Eq, Hash, Key)]
/// #[key(family = "squares", value = Vec<u32>)]
/// struct SquaresKey {
///     count: u32,
/// }
///
/// fn build(key: &SquaresKey, _context: &()) -> Result<Built<Vec<u32>>, std::convert::Infallible> {
///     let squares: Vec<u32> = (0..key.count).map(|number| number * number).collect();
///     Ok(Built { bytes: squares.len() * 4, value: squares, from_record: false })
/// }
///
/// let cache = Cache::new(Limits { entries: 1024, bytes: 1 << 20 });
/// let mut memo = Memo::default();
/// for (count, asked) in [(3, Some(Outcome::Miss)), (3, None), (5, Some(Outcome::Miss)), (3, None)] {
///     let (squares, outcome) = memo.get_or_create(&cache, &SquaresKey { count }, &(), build)?;
///     assert_eq!((squares.len(), outcome), (count as usize, asked));
/// }
/// # Ok::<(), kiln_cache::CacheError<std::convert::Infallible>>(())
/// ```
pub struct Memo<K: Key> {
    /// The key that was wanted last.
    last: Option<Known<K>>,
    /// The others; the one unwanted for longest comes first.
    others: Vec<Known<K>>,
}

impl<K: Key> Default for Memo<K> {
    fn default() -> Memo<K> {
        Memo { last: None, others: Vec::new() }
    }
}

impl<K: Key> Memo<K> {
    /// The value of `key`: the remembered one, or the cache's [answer](Cache::get_or_create). For a remembered value
    /// the outcome is `None`, because the cache was not asked and counts nothing.
    ///
    /// # Errors
    ///
    /// As for [`Cache::get_or_create`]; nothing is forgotten then.
    #[inline]
    pub fn get_or_create<S: BuildHasher, C: ?Sized, E>(
        &mut self,
        cache: &Cache<S>,
        key: &K,
        cx: &C,
        build: Builder<K, C, E>,
    ) -> Result<(&Arc<K::Value>, Option<Outcome>), CacheError<E>> {
        let mut outcome = None;
        if self.last.as_ref().is_none_or(|known| known.key != *key) {
            outcome = self.make_last(cache, key, cx, build)?;
        }
        match &self.last {
            Some(known) => Ok((&known.value, outcome)),
            None => unreachable!("a {} was wanted and is not the last one", K::FAMILY),
        }
    }

    /// Makes another key the last one.
    fn make_last<S: BuildHasher, C: ?Sized, E>(
        &mut self,
        cache: &Cache<S>,
        key: &K,
        cx: &C,
        build: Builder<K, C, E>,
    ) -> Result<Option<Outcome>, CacheError<E>> {
        let (known, outcome) = match self.others.iter().position(|known| known.key == *key) {
            Some(at) => (self.others.remove(at), None),
            None => {
                let (value, outcome) = cache.get_or_create(key, cx, build)?;
                if self.others.len() == MOST - 1 {
                    self.others.remove(0);
                }
                (Known { key: key.clone(), value }, Some(outcome))
            }
        };
        self.others.extend(self.last.replace(known));
        Ok(outcome)
    }

    /// Forgets everything: the next look-up of each key asks the cache.
    pub fn forget(&mut self) {
        self.last = None;
        self.others.clear();
    }
}
