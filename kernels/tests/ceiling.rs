//! The account of the process and its ceiling. One test in a process of its own, because the account is the process's.

use std::sync::{Arc, Mutex};

use kiln_kernels::memory::Refused;
use kiln_kernels::memory::ceiling::{
    Claim, Held, Holder, Keeps, Spare, ask, bytes, check, held, keep, limit, most, room,
};

/// Keeps memory of one kind, and frees it in pieces.
struct Hoard {
    spare: Spare,
    used: u64,
    kept: Mutex<Vec<Claim>>,
    gone: Arc<Mutex<Vec<u64>>>,
}

impl Keeps for Hoard {
    fn used_at(&self) -> u64 {
        self.used
    }

    fn let_go(&self, spare: Spare, _: usize) -> bool {
        if spare != self.spare {
            return false;
        }
        let (piece, left) = {
            let mut kept = self.kept.lock().unwrap();
            (kept.pop(), kept.len())
        };
        if piece.is_some() {
            self.gone.lock().unwrap().push(self.used);
        }
        left > 0
    }

    fn plans(&self) -> usize {
        0
    }
}

#[test]
fn what_would_pass_the_ceiling_waits_until_others_let_go_and_is_then_refused_with_who_holds_what() {
    assert_eq!((limit(), held()), (None, Held::default()));
    let gone = Arc::default();
    let hoard = |spare, used, pieces: usize| {
        let claims = (0..pieces).map(|_| Claim::of(Holder::Tensors, 100).unwrap()).collect();
        Arc::new(Hoard { spare, used, kept: Mutex::new(claims), gone: Arc::clone(&gone) })
    };
    let all = [
        hoard(Spare::Executors, 1, 1),
        hoard(Spare::Memory, 9, 2),
        hoard(Spare::Memory, 4, 1),
        hoard(Spare::States, 2, 1),
    ];
    for one in &all {
        let keeper: Arc<dyn Keeps> = one.clone();
        keep(Arc::downgrade(&keeper));
    }
    assert_eq!((bytes(), room()), (500, usize::MAX - 500), "without a limit there is room for anything");
    let first = ask(Some(700));
    let second = ask(Some(600));
    assert_eq!((limit(), room()), (Some(600), 100), "the least limit is the ceiling");
    let weights = Claim::of(Holder::Weights, 100).unwrap();
    assert!(gone.lock().unwrap().is_empty(), "as long as there is room nothing goes");
    let more = Claim::of(Holder::Weights, 150).unwrap();
    assert_eq!(*gone.lock().unwrap(), [4, 9], "free memory first, what was used longest ago before the rest");
    let refused = Claim::of(Holder::Records, 400).unwrap_err();
    assert_eq!(*gone.lock().unwrap(), [4, 9, 9, 2, 1], "then states, then executors");
    let Refused::Ceiling { bytes: 400, limit: 600, held: table } = refused else { panic!("{refused}") };
    assert_eq!((table.weights, table.total(), table), (250, 250, held()));
    let text = "400 bytes more would pass the 600 bytes that the process may hold; it holds 250: executors and \
                code 0, plans 0, weights 250, tensors and scratch 0, records 0";
    assert_eq!(refused.to_string(), text);
    assert!(check(350).is_ok() && check(351).is_err());
    drop(second);
    assert_eq!((limit(), room()), (Some(700), 450), "a limit holds as long as who asked for it");
    let mut claim = Claim::of(Holder::Records, 400).unwrap();
    claim.set(500);
    assert_eq!((bytes(), room()), (750, 0), "what cannot be refused is counted");
    assert!(check(0).is_err());
    claim.set(10);
    assert!(check(0).is_ok());
    drop((claim, weights, more, first));
    assert_eq!((limit(), bytes(), most()), (None, 0, 750));
}
