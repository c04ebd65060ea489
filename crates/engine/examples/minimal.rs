//! One worker, three requests: submitted, dispatched, done.
#![expect(clippy::print_stdout, reason = "an example shows what happens")]

use tollgate::policy::Profile;
use tollgate::{Delivery, Engine, Request, Worker};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let policy = Profile::synthetic(None);
    let built = Engine::builder(policy).worker(Worker::new(7)).build()?;
    let (mut ingress, mut egress) = (built.ingress, built.egress);
    for prompt in ["why is the sky blue?", "tell me a joke", "translate this"] {
        let submitted = ingress[0].try_submit(Request::new(512, prompt));
        submitted.map_err(|refused| refused.reason)?;
    }
    for _ in 0..3 {
        if let Delivery::Dispatch(dispatch) = egress[0].recv()? {
            println!("{:?} goes to {}", dispatch.payload, dispatch.endpoint);
            egress[0].complete(dispatch.receipt());
        }
    }
    built.engine.stop()?;
    Ok(built.engine.join()?)
}
