//! A memo gives the answers that the cache would give, without asking it.

use kiln_cache::{Cache, CacheError, Limits, Memo, Outcome};
use proptest::prelude::*;

use crate::fixture::{Context, Refused, Square, square};

/// The number of keys that a memo keeps.
const MOST: usize = 6;

proptest! {
    #[test]
    fn a_memo_is_a_least_recently_used_list_of_six(keys in prop::collection::vec(0_u32..9, 0..200)) {
        let cx = Context::<hashbrown::DefaultHashBuilder>::new(64, 10_000);
        let (mut memo, mut recent) = (Memo::default(), Vec::new());
        let mut asked = 0;
        for of in keys {
            let (value, outcome) = memo.get_or_create(&cx.cache, &Square { of }, &cx, square).unwrap();
            prop_assert_eq!(**value, u64::from(of * of));
            let known = recent.iter().position(|known| *known == of);
            prop_assert_eq!(outcome.is_none(), known.is_some(), "{} of {:?}", of, recent);
            known.map(|at| recent.remove(at));
            recent.insert(0, of);
            recent.truncate(MOST);
            asked += u64::from(outcome.is_some());
        }
        prop_assert_eq!(cx.cache.stats().lookups, asked, "what is remembered asks nothing");
    }
}

#[test]
fn what_is_remembered_outlives_its_eviction_until_it_is_forgotten() {
    let cx = Context::<hashbrown::DefaultHashBuilder>::new(1, 10_000);
    let mut memo = Memo::default();
    for of in [2, 3] {
        memo.get_or_create(&cx.cache, &Square { of }, &cx, square).unwrap();
    }
    assert!(cx.cache.get(&Square { of: 2 }).is_none(), "one entry is the bound");
    let (value, outcome) = memo.get_or_create(&cx.cache, &Square { of: 2 }, &cx, square).unwrap();
    assert_eq!((**value, outcome), (4, None));
    memo.forget();
    let (value, outcome) = memo.get_or_create(&cx.cache, &Square { of: 2 }, &cx, square).unwrap();
    assert_eq!((**value, outcome), (4, Some(Outcome::Miss)));
}

#[test]
fn an_error_leaves_what_is_remembered() {
    let cache = Cache::new(Limits { entries: 4, bytes: 1000 });
    let mut memo = Memo::default();
    let build = |key: &Square, (): &()| match key.of {
        0 => Err(Refused(0)),
        of => Ok(kiln_cache::Built { value: u64::from(of), bytes: 8, from_record: false }),
    };
    memo.get_or_create(&cache, &Square { of: 5 }, &(), build).unwrap();
    let refused = memo.get_or_create(&cache, &Square { of: 0 }, &(), build).map(|_| ());
    assert_eq!(refused, Err(CacheError::Build(Refused(0))));
    let (value, outcome) = memo.get_or_create(&cache, &Square { of: 5 }, &(), build).unwrap();
    assert_eq!((**value, outcome), (5, None));
}
