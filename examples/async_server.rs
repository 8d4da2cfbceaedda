//! A server with one task for each client, all on one thread: requests are futures.
//!
//! The executor takes forty lines, to show that any executor will do.
//!
//!     cargo run --example async_server

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Wake, Waker};
use std::thread::Thread;

use ferrywire::{Comm, Error};

fn main() -> Result<(), Error> {
    let world = ferrywire::init()?;
    let answers = async_server(&world, 10)?;
    println!("rank {}: {answers} answers", world.rank());
    Ok(())
}

/// Rank 0 serves, and every rank, including rank 0, asks `questions` questions. Returns the number of answers
/// received.
pub fn async_server(world: &Comm, questions: u32) -> Result<u32, Error> {
    let mut tasks: Vec<Task<'_>> = Vec::new();
    if world.rank() == 0 {
        for client in 0..world.size() {
            tasks.push(Box::pin(serve(world, client)));
        }
    }
    tasks.push(Box::pin(ask(world, questions)));
    let answers = run_all(tasks)?;
    Ok(answers.last().copied().unwrap_or(0))
}

/// Answers one client until it has no more questions.
async fn serve(world: &Comm, client: u32) -> Result<u32, Error> {
    let mut served = 0;
    loop {
        let (question, _) = world.irecv::<u64>(1, client, QUESTION)?.await?;
        let Some(&number) = question.first() else { return Ok(served) };
        world.isend([number * number], client, ANSWER)?.await?;
        served += 1;
    }
}

async fn ask(world: &Comm, questions: u32) -> Result<u32, Error> {
    for number in 0..u64::from(questions) {
        world.isend([number], 0, QUESTION)?.await?;
        let (answer, _) = world.irecv::<u64>(1, 0, ANSWER)?.await?;
        assert_eq!(answer, [number * number], "the server can square");
    }
    // An empty question ends the conversation.
    world.isend(Vec::<u64>::new(), 0, QUESTION)?.await?;
    Ok(questions)
}

const QUESTION: u32 = 1;
const ANSWER: u32 = 2;

type Task<'a> = Pin<Box<dyn Future<Output = Result<u32, Error>> + 'a>>;

/// Runs all tasks on this thread, and sleeps while none is ready.
fn run_all(tasks: Vec<Task<'_>>) -> Result<Vec<u32>, Error> {
    let mut tasks: Vec<(Task<'_>, Arc<Alarm>, Option<u32>)> =
        tasks.into_iter().map(|task| (task, Alarm::new(), None)).collect();
    while tasks.iter().any(|(_, _, result)| result.is_none()) {
        let mut busy = false;
        for (task, alarm, result) in &mut tasks {
            if result.is_some() || !alarm.rung.swap(false, Ordering::AcqRel) {
                continue;
            }
            busy = true;
            let waker = Waker::from(Arc::clone(alarm));
            if let std::task::Poll::Ready(over) =
                task.as_mut().poll(&mut Context::from_waker(&waker))
            {
                *result = Some(over?);
            }
        }
        if !busy {
            std::thread::park();
        }
    }
    Ok(tasks.into_iter().filter_map(|(_, _, result)| result).collect())
}

/// Wakes the thread, and marks the task as ready.
struct Alarm {
    rung: AtomicBool,
    thread: Thread,
}

impl Alarm {
    fn new() -> Arc<Alarm> {
        Arc::new(Alarm { rung: AtomicBool::new(true), thread: std::thread::current() })
    }
}

impl Wake for Alarm {
    fn wake(self: Arc<Self>) {
        // Pairs with the swap in `run_all`.
        self.rung.store(true, Ordering::Release);
        self.thread.unpark();
    }
}
