//! The asynchronous handle from several tasks, on an executor of twenty lines: `cargo run -p oxblock --example tasks -- disk.ox`

use std::future::Future;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};

use oxblock::volume::{AsyncHandle, Handle, create};
use oxblock::{Buf, CreateOptions, OpenOptions, Result};

/// Writes a block of its own, reads it back, and says so.
async fn worker(volume: AsyncHandle, id: u64) -> Result<()> {
    let offset = id * 4096;
    let buf = Buf::copy_of(format!("written by task {id}").as_bytes());
    let buf = volume.write_at(offset, buf).await?;
    volume.flush().await?;
    let buf = volume.read_at(offset, buf).await?;
    println!("{}", String::from_utf8_lossy(&buf));
    Ok(())
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Runs all tasks in this thread. Any executor will do in its place.
fn run(mut tasks: Vec<Pin<Box<dyn Future<Output = Result<()>>>>>) -> Result<()> {
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut context = Context::from_waker(&waker);
    while !tasks.is_empty() {
        let mut result = Ok(());
        tasks.retain_mut(|task| match task.as_mut().poll(&mut context) {
            Poll::Pending => true,
            Poll::Ready(Ok(())) => false,
            Poll::Ready(error) => {
                result = error;
                false
            }
        });
        result?;
        if !tasks.is_empty() {
            thread::park();
        }
    }
    Ok(())
}

fn main() -> Result<()> {
    let path = std::env::args().nth(1).map_or_else(|| PathBuf::from("disk.ox"), PathBuf::from);
    if !path.exists() {
        let options = CreateOptions { size: Some(64 << 20), ..CreateOptions::default() };
        create(std::slice::from_ref(&path), &options, &mut |_, _| {})?;
    }
    let volume = Handle::open(&[path], &OpenOptions::default())?;
    let tasks = volume.tasks();
    run((0..4).map(|id| Box::pin(worker(tasks.clone(), id)) as Pin<Box<_>>).collect())?;
    volume.close()
}
