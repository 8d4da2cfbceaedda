//! Requests: futures on one thread and on several, dropped, leaked, tested.
#![allow(missing_docs)]

mod common;

use std::future::Future;
use std::pin::Pin;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::task::{Context, Wake, Waker};
use std::thread;
use std::time::Duration;

use common::{block_on, local};
use ferrywire::{ANY, Comm};

#[test]
fn all_to_all_as_futures() {
    for ranks in 1..=8 {
        local(ranks, |world| {
            for count in [1, 100, 50_000] {
                let received: Vec<_> =
                    (0..ranks).map(|from| world.irecv::<u32>(count, from, 0).unwrap()).collect();
                let sent: Vec<_> = (0..ranks)
                    .map(|to| world.isend(vec![world.rank(); count], to, 0).unwrap())
                    .collect();
                block_on(async {
                    for (from, request) in (0..).zip(received) {
                        let (items, status) = request.await.unwrap();
                        assert_eq!((status.source, items), (from, vec![from; count]));
                    }
                    for request in sent {
                        assert_eq!(request.await.unwrap().len(), count);
                    }
                });
                world.barrier().unwrap();
            }
        });
    }
}

#[test]
fn boxes_and_arrays_can_be_given_away() {
    local(1, |world| {
        let boxed: Box<[u8]> = Box::new([1, 2]);
        world.isend(boxed, 0, 0).unwrap().wait().unwrap();
        world.isend([3u8, 4], 0, 0).unwrap().wait().unwrap();
        assert_eq!(world.receive_vec::<u8>(0, 0).unwrap().0, [1, 2]);
        assert_eq!(world.receive_vec::<u8>(0, 0).unwrap().0, [3, 4]);
    });
}

#[test]
fn a_test_tells_once() {
    local(2, |world| {
        let other = 1 - world.rank();
        let mut received = world.irecv::<u8>(8, other, 0).unwrap();
        assert!(received.test().is_none());
        world.barrier().unwrap();
        world.send(&[5u8; 3], other, 0).unwrap();
        let (items, _) = loop {
            if let Some(result) = received.test() {
                break result.unwrap();
            }
            thread::yield_now();
        };
        assert_eq!(items, [5; 3]);
        assert!(received.test().is_none());
    });
}

#[test]
fn a_send_that_is_dropped_arrives_all_the_same() {
    local(2, |world| {
        if world.rank() == 0 {
            for count in [1usize, 1000, 1_000_000] {
                drop(world.isend(vec![7u8; count], 1, 0).unwrap());
            }
            // Then the rank leaves.
        } else {
            // By now the sender only waits in its leave for this rank to receive.
            thread::sleep(Duration::from_millis(100));
            for count in [1usize, 1000, 1_000_000] {
                assert_eq!(world.receive_vec::<u8>(0, 0).unwrap().0, vec![7; count]);
            }
        }
    });
}

#[test]
fn a_receive_that_is_dropped_takes_nothing() {
    local(2, |world| {
        if world.rank() == 0 {
            world.barrier().unwrap();
            world.send(&1u8, 1, 0).unwrap();
        } else {
            drop(world.irecv::<u8>(1, 0, 0).unwrap());
            drop(world.irecv::<u8>(1, ANY, ANY).unwrap());
            world.barrier().unwrap();
            assert_eq!(world.receive_one::<u8>(0, 0).unwrap().0, 1);
        }
    });
}

#[test]
fn a_receive_that_is_dropped_while_its_bytes_come_does_no_harm() {
    local(2, |world| {
        for lap in 0..50u8 {
            if world.rank() == 0 {
                world.barrier().unwrap();
                drop(world.isend(vec![lap; 3_000_000], 1, 0).unwrap());
                world.send(&lap, 1, 1).unwrap();
            } else {
                let request = world.irecv::<u8>(3_000_000, 0, 0).unwrap();
                world.barrier().unwrap();
                drop(request);
                world.receive_one::<u8>(0, 1).unwrap();
                // The receive was cancelled in time, or it was not.
                if world.iprobe(0, 0).unwrap().is_some() {
                    world.receive_vec::<u8>(0, 0).unwrap();
                }
            }
            world.barrier().unwrap();
        }
    });
}

#[test]
fn leaked_requests_leak_their_buffers_and_no_more() {
    local(2, |world| {
        let other = 1 - world.rank();
        for count in [1usize, 100, 100_000] {
            std::mem::forget(world.irecv::<u8>(count, other, 0).unwrap());
            std::mem::forget(world.isend(vec![1u8; count], other, 0).unwrap());
            // Memory that is allocated now must not be where those bytes arrive.
            let other_memory = vec![2u8; count];
            world.barrier().unwrap();
            world.sendrecv(&1u8, other, 1, &mut 0u8, other, 1).unwrap();
            assert!(other_memory.iter().all(|&byte| byte == 2));
        }
        // The leaked receives have taken all messages.
        assert_eq!(world.iprobe(ANY, ANY).unwrap(), None);
    });
}

/// A few threads that run whatever task is ready.
struct Pool {
    ready: Arc<Mutex<Receiver<Arc<Task>>>>,
}

struct Task {
    future: Mutex<Option<Pin<Box<dyn Future<Output = ()> + Send>>>>,
    ready: Sender<Arc<Task>>,
}

impl Wake for Task {
    fn wake(self: Arc<Self>) {
        let task = Arc::clone(&self);
        // The receiver is gone once all tasks are over.
        let _ = self.ready.send(task);
    }
}

impl Pool {
    /// Runs all futures to their end on `threads` threads.
    fn run(threads: usize, futures: Vec<Pin<Box<dyn Future<Output = ()> + Send>>>) {
        let (ready, queue) = channel();
        let pool = Pool { ready: Arc::new(Mutex::new(queue)) };
        for future in futures {
            let task = Task { future: Mutex::new(Some(future)), ready: ready.clone() };
            ready.send(Arc::new(task)).unwrap();
        }
        // The queue ends when the last task does.
        drop(ready);
        thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(|| pool.work());
            }
        });
    }

    fn work(&self) {
        loop {
            let next = self.ready.lock().unwrap().recv();
            let Ok(task) = next else { return };
            let mut place = task.future.lock().unwrap();
            let Some(mut future) = place.take() else { continue };
            let waker = Waker::from(Arc::clone(&task));
            if future.as_mut().poll(&mut Context::from_waker(&waker)).is_pending() {
                *place = Some(future);
            }
        }
    }
}

#[test]
fn futures_on_a_pool_of_threads() {
    async fn echo(comm: Comm, tag: u32) {
        for lap in 0..30u32 {
            let (items, _) = comm.irecv::<u32>(2000, 0, tag).unwrap().await.unwrap();
            assert!(items.iter().all(|&item| item == lap * 100 + tag));
            comm.isend(items, 0, tag).unwrap().await.unwrap();
        }
    }
    async fn ask(comm: Comm, rank: u32, tag: u32) {
        for lap in 0..30u32 {
            let count = if lap % 7 == 0 { 2000 } else { 3 };
            let value = lap * 100 + tag;
            let sent = comm.isend(vec![value; count], rank, tag).unwrap();
            let (items, _) = comm.irecv::<u32>(2000, rank, tag).unwrap().await.unwrap();
            assert_eq!(items, vec![value; count]);
            sent.await.unwrap();
        }
    }
    local(4, |world| {
        let mut futures: Vec<Pin<Box<dyn Future<Output = ()> + Send>>> = Vec::new();
        for tag in 0..8 {
            if world.rank() == 0 {
                for rank in 1..world.size() {
                    futures.push(Box::pin(ask(world.comm().clone(), rank, tag)));
                }
            } else {
                futures.push(Box::pin(echo(world.comm().clone(), tag)));
            }
        }
        Pool::run(3, futures);
    });
}

#[test]
fn persistent_requests_are_started_again_and_again() {
    for ranks in 1..=4u32 {
        for items in [1, 64, 20_000] {
            local(ranks, |world| {
                let (rank, size) = (world.rank(), world.size());
                let (left, right) = ((rank + size - 1) % size, (rank + 1) % size);
                let mut sent = world.send_init(vec![0u32; items], right, 5).unwrap();
                let mut received = world.recv_init::<u32>(items + 1, left, 5).unwrap();
                for lap in 0..20 {
                    sent.items_mut().fill(1000 * lap + rank);
                    // Messages that find their receive, and messages that do not.
                    if lap % 2 == 0 {
                        received.start();
                    }
                    sent.start();
                    assert_eq!(sent.items()[0], 1000 * lap + rank);
                    if lap % 2 == 1 {
                        received.start();
                    }
                    let status = loop {
                        match received.test() {
                            Some(status) => break status.unwrap(),
                            None => std::thread::yield_now(),
                        }
                    };
                    assert_eq!((status.source, status.count), (left, items));
                    assert_eq!(received.items()[..items], vec![1000 * lap + left; items]);
                    sent.wait().unwrap();
                }
                received.items_mut()[0] = 0;
            });
        }
    }
}

#[test]
fn persistent_requests_may_be_dropped_while_they_are_open() {
    local(2, |world| {
        let other = 1 - world.rank();
        for _ in 0..10 {
            // The receive is cancelled, the send is not.
            let mut received = world.recv_init::<u64>(30_000, other, 1).unwrap();
            received.start();
            drop(received);
            let mut sent = world.send_init(vec![7u64; 30_000], other, 2).unwrap();
            sent.start();
            drop(sent);
            let (items, _) = world.receive_vec::<u64>(other, 2).unwrap();
            assert_eq!(items, vec![7; 30_000]);
        }
        assert_eq!(world.iprobe(other, 1).unwrap(), None);
        // A probe of a rank that has left is an error.
        world.barrier().unwrap();
    });
}

#[test]
fn a_persistent_request_is_used_in_its_order() {
    local(1, |world| {
        let mut received = world.recv_init::<u8>(1, 0, 0).unwrap();
        let panics = |request: &mut ferrywire::PersistentReceive<u8>,
                      act: fn(&mut ferrywire::PersistentReceive<u8>)| {
            let act = std::panic::AssertUnwindSafe(|| act(request));
            *std::panic::catch_unwind(act).unwrap_err().downcast::<&str>().unwrap()
        };
        let text = panics(&mut received, |request| drop(request.wait()));
        assert_eq!(text, "a persistent request that has not been started");
        received.start();
        let acts: [fn(&mut ferrywire::PersistentReceive<u8>); 3] = [
            |request| request.start(),
            |request| assert!(request.items().is_empty()),
            |request| request.items_mut()[0] = 1,
        ];
        for act in acts {
            let text = panics(&mut received, act);
            assert_eq!(text, "a persistent request that has been started and not waited for");
        }
        world.send(&9u8, 0, 0).unwrap();
        assert_eq!(received.wait().unwrap().count, 1);
        assert_eq!(received.items(), [9]);
        let error = world.send_init([1u8], 1, 0).err().unwrap();
        assert_eq!(
            error.to_string(),
            "send_init of 1 byte to rank 1, tag 0: invalid rank; the only rank is 0 [FW0101]"
        );
        // A message of another type is noticed at each start.
        let mut sent = world.send_init([1u16], 0, 0).unwrap();
        sent.start();
        assert!(world.receive(&mut [0u8; 2], 0, 0).is_err() || !cfg!(debug_assertions));
    });
}
