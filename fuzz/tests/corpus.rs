//! Every committed input once: what was found stays fixed, and the targets stay able to read their corpus.

use oxblock_fuzz::runner::{corpus, once, watch};
use oxblock_fuzz::target::ALL;

// One test, since the limit on memory is the process's own.
#[test]
fn no_input_of_the_corpus_is_a_finding() {
    for target in ALL {
        let inputs = corpus(target).unwrap();
        assert!(!inputs.is_empty(), "{} has no corpus", target.name());
        let watch = watch(target);
        // What is set up once is nobody's memory.
        target.seeds();
        for (name, input) in inputs {
            if let Err(what) = once(&watch, target, &input).0 {
                panic!("{} {name}: {what}", target.name());
            }
        }
    }
}
