//! Reductions with user-defined operators: which thread runs them, and what they may do.

mod common;

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::task::{Poll, Wake, Waker};
use std::thread::{self, Thread};

use common::{both_ways, end, post_receive, receive, send};
use ferrywire_host::{Driver, Operators, Rank, memory};
use ferrywire_nic::{Fault, Operator, Outcome, Peer, Posted, Schedule, Span, Step, Ticket};

/// Adds, and is built in.
const OURS: Operator = Operator(0);
/// Adds, and is user-defined.
const USERS: Operator = Operator(1);
/// Adds, and meanwhile sends a message to its own rank.
const CALLS: Operator = Operator(2);
/// Adds once `SLOW_MAY_END` is set.
const SLOW: Operator = Operator(3);

const OPERATORS: Operators = Operators { combine, is_users: |operator| operator != OURS };

thread_local! {
    /// The driver of this application thread, and how often the thread has run an operator.
    static USER: RefCell<Option<(Arc<Rank>, u32)>> = const { RefCell::new(None) };
}

static SLOW_RUNS: AtomicBool = AtomicBool::new(false);
static SLOW_MAY_END: AtomicBool = AtomicBool::new(false);

fn combine(operator: Operator, source: &[u8], into: &mut [u8]) {
    if operator != OURS {
        let driver = USER.with_borrow_mut(|user| {
            let (driver, runs) = user.as_mut().expect("it runs on a thread of the user's");
            *runs += 1;
            Arc::clone(driver)
        });
        match operator {
            CALLS => talk_to_oneself(driver.driver()),
            SLOW => {
                SLOW_RUNS.store(true, Ordering::Release);
                await_flag(&SLOW_MAY_END);
            }
            _ => {}
        }
    }
    into.iter_mut().zip(source).for_each(|(into, from)| *into = into.wrapping_add(*from));
}

fn await_flag(flag: &AtomicBool) {
    while !flag.load(Ordering::Acquire) {
        thread::yield_now();
    }
}

fn talk_to_oneself(driver: &Driver) {
    let me = driver.me().0;
    let mut bytes = [0; 8];
    let posted = post_receive(driver, me, 99, &mut bytes);
    send(driver, me, 99, &[7; 8]);
    end(driver, posted);
    assert_eq!(bytes, [7; 8]);
    driver.turn();
}

/// Makes this thread an application thread of `driver`.
fn become_user(driver: &Arc<Rank>) {
    USER.set(Some((Arc::clone(driver), 0)));
}

/// How often this thread has run an operator.
fn runs() -> u32 {
    USER.with_borrow(|user| user.as_ref().map_or(0, |(_, runs)| *runs))
}

/// Runs `story` for each rank of a job, in application threads.
fn ranks(count: u32, story: impl Fn(&Arc<Rank>) + Send + Sync + 'static) {
    both_ways(count, OPERATORS, move |drivers| {
        thread::scope(|scope| {
            for driver in drivers {
                let story = &story;
                scope.spawn(move || {
                    let driver = Arc::new(driver);
                    become_user(&driver);
                    story(&driver);
                    // The driver is dropped here, not with the last thread that has it.
                    USER.set(None);
                });
            }
        });
    });
}

/// Each rank sends to all others and adds up what arrives. `work` has room for what all ranks send; `bytes`
/// is what this rank sends, and then the sum.
fn allreduce(driver: &Driver, operator: Operator, bytes: Span, work: Span, group: u16) -> Schedule {
    let me = driver.me().0;
    let mut schedule = Schedule::new(group, me);
    let others = (0..driver.size()).filter(|&rank| rank != me);
    let sends: Vec<_> = others
        .clone()
        .map(|rank| schedule.push(Step::Send { to: Peer(rank), source: bytes, subtag: 0 }, &[]))
        .collect();
    let mut sum = None;
    for rank in others {
        let at = Span::new(work.region, work.offset + u64::from(rank) * bytes.len, bytes.len);
        let step = Step::Receive { from: Peer(rank), rank, into: at, subtag: 0 };
        let came = schedule.push(step, &[]);
        let mut after = sends.clone();
        after.extend([came].into_iter().chain(sum));
        sum = Some(schedule.push(Step::Reduce { operator, source: at, into: bytes }, &after));
    }
    schedule
}

/// A run of [`allreduce`] and its memory.
struct Sum {
    posted: Posted,
    bytes: Box<[u8; 100]>,
    _work: Vec<u8>,
}

impl Sum {
    fn post(driver: &Driver, operator: Operator, group: u16, instance: u16) -> Sum {
        let mut bytes = Box::new([u8::try_from(driver.me().0 + 1).expect("few"); 100]);
        let mut work = vec![0; 100 * driver.size() as usize];
        let spans = (memory::lend_mut(&mut bytes[..]), memory::lend_mut(&mut work));
        let schedule = allreduce(driver, operator, spans.0, spans.1, group);
        // SAFETY: the tests below keep the bytes until the run is over.
        let posted = unsafe {
            driver.submit(|nic, port| nic.post_schedule(schedule.into(), instance, port))
        };
        Sum { posted, bytes, _work: work }
    }

    fn ticket(&self) -> Ticket {
        let Posted::Pending(ticket) = self.posted else { panic!("a run has a ticket") };
        ticket
    }

    fn check(&self, driver: &Driver, outcome: Outcome) {
        assert_eq!(outcome, Outcome::Done);
        let sum = (1..=driver.size()).sum::<u32>();
        assert!(self.bytes.iter().all(|&byte| u32::from(byte) == sum), "{:?}", self.bytes);
    }
}

#[test]
fn a_waiting_caller_runs_them() {
    ranks(3, |driver| {
        for (instance, operator) in (0..ROUNDS).zip([OURS, USERS, CALLS].into_iter().cycle()) {
            let sum = Sum::post(driver.driver(), operator, 1, instance);
            sum.check(driver.driver(), end(driver.driver(), sum.posted));
        }
        assert_eq!(runs(), 2 * u32::from(ROUNDS / 3 * 2));
    });
}

#[test]
fn a_testing_caller_runs_them() {
    ranks(3, |driver| {
        for (instance, operator) in (0..ROUNDS).zip([USERS, CALLS].into_iter().cycle()) {
            let sum = Sum::post(driver.driver(), operator, 1, instance);
            let outcome = loop {
                match driver.driver().test(sum.ticket()) {
                    Some(outcome) => break outcome,
                    None => thread::yield_now(),
                }
            };
            sum.check(driver.driver(), outcome);
        }
    });
}

struct Unparks(Thread);

impl Wake for Unparks {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// The agent finds that there is something to reduce while no thread is inside.
#[test]
fn a_task_is_woken_to_run_them() {
    ranks(2, |driver| {
        let waker = Waker::from(Arc::new(Unparks(thread::current())));
        for (instance, operator) in (0..ROUNDS).zip([USERS, CALLS].into_iter().cycle()) {
            let sum = Sum::post(driver.driver(), operator, 1, instance);
            let outcome = loop {
                match driver.driver().poll(sum.ticket(), &waker) {
                    Poll::Ready(outcome) => break outcome,
                    Poll::Pending => thread::park(),
                }
            };
            sum.check(driver.driver(), outcome);
        }
    });
}

/// Rank 0 has posted, and stays outside until all that it needs has arrived.
#[test]
fn a_rank_that_computes_reduces_when_it_comes_inside() {
    ranks(2, |driver| {
        if driver.driver().me().0 == 1 {
            receive(driver.driver(), 0, 1, &mut [0; 8]);
            let sum = Sum::post(driver.driver(), USERS, 1, 0);
            sum.check(driver.driver(), end(driver.driver(), sum.posted));
            send(driver.driver(), 0, 2, &[0; 8]);
            return;
        }
        let sum = Sum::post(driver.driver(), USERS, 1, 0);
        let mut bytes = [0; 8];
        let Posted::Pending(word) = post_receive(driver.driver(), 1, 2, &mut bytes) else {
            panic!("rank 1 waits for us")
        };
        let (told, wait) = mpsc::channel();
        let waker = common::waker(move || told.send(()).expect("somebody listens"));
        assert!(driver.driver().poll(word, &waker).is_pending());
        send(driver.driver(), 1, 1, &[0; 8]);
        // Rank 1 does not need us any more, but its bytes have arrived, or its message has.
        wait.recv().expect("the agent tells us");
        assert_eq!(runs(), 0);
        sum.check(driver.driver(), driver.driver().wait(sum.ticket()));
        assert_eq!(runs(), 1);
        driver.driver().wait(word);
    });
}

/// Each thread waits for its own runs, and any of them may run the operators of all.
#[test]
fn threads_run_them_for_each_other() {
    ranks(2, |driver| {
        thread::scope(|scope| {
            for group in 1..4 {
                scope.spawn(move || {
                    become_user(driver);
                    for (instance, operator) in
                        (0..ROUNDS).zip([USERS, OURS, CALLS].into_iter().cycle())
                    {
                        let sum = Sum::post(driver.driver(), operator, group, instance);
                        // With our operator it may be over when it is posted.
                        sum.check(driver.driver(), end(driver.driver(), sum.posted));
                    }
                    USER.set(None);
                });
            }
        });
    });
}

/// A cancelled run is not over before its operator is: its bytes are still in use.
#[test]
fn a_run_that_is_cancelled_waits_for_its_operator() {
    ranks(2, |driver| {
        if driver.driver().me().0 == 1 {
            let sum = Sum::post(driver.driver(), USERS, 1, 0);
            sum.check(driver.driver(), end(driver.driver(), sum.posted));
            return receive(driver.driver(), 0, 1, &mut [0; 8]);
        }
        SLOW_RUNS.store(false, Ordering::Release);
        SLOW_MAY_END.store(false, Ordering::Release);
        let sum = Sum::post(driver.driver(), SLOW, 1, 0);
        let ticket = sum.ticket();
        thread::scope(|scope| {
            scope.spawn(move || {
                become_user(driver);
                await_flag(&SLOW_RUNS);
                driver.driver().cancel(ticket);
                assert_eq!(driver.driver().test(ticket), None);
                // Other operations go on meanwhile.
                send(driver.driver(), 1, 1, &[0; 8]);
                SLOW_MAY_END.store(true, Ordering::Release);
                USER.set(None);
            });
            assert_eq!(driver.driver().wait(ticket), Outcome::Failed(Fault::Abandoned));
            assert!(SLOW_MAY_END.load(Ordering::Acquire));
        });
    });
}

/// One thread leads and waits for what comes last; the other waits for whichever comes first.
#[test]
fn one_of_several_is_waited_for() {
    ranks(2, |driver| {
        if driver.driver().me().0 == 1 {
            for tag in [2, 0, 1] {
                receive(driver.driver(), 0, 10 + tag, &mut [0; 8]);
                send(driver.driver(), 0, tag, &[0; 8]);
            }
            return send(driver.driver(), 0, 9, &[0; 8]);
        }
        let mut bytes = [[0; 8]; 3];
        let [first, second, third] = &mut bytes;
        let posted = [(0, first), (1, second), (2, third)]
            .map(|(tag, bytes)| post_receive(driver.driver(), 1, tag, bytes));
        let tickets = posted.map(|posted| match posted {
            Posted::Pending(ticket) => ticket,
            Posted::Done(_) => panic!("nothing is sent yet"),
        });
        thread::scope(|scope| {
            scope.spawn(|| receive(driver.driver(), 1, 9, &mut [0; 8]));
            for (tag, at) in [(2, 2), (0, 0), (1, 0)] {
                send(driver.driver(), 1, 10 + tag, &[0; 8]);
                let left = if tag == 1 { &tickets[1..2] } else { &tickets[..] };
                let (found, outcome) = driver.driver().wait_any(left);
                assert_eq!(found, at);
                assert!(matches!(outcome, Outcome::Received(_)));
            }
        });
        assert!(
            driver
                .driver()
                .look(|finished| tickets.iter().all(|&ticket| finished.take(ticket).is_none()))
        );
        assert_eq!(driver.driver().inspect(|nic| nic.holdings().backlog), 0);
    });
}

const ROUNDS: u16 = 300;
