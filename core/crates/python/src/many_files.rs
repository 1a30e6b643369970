//! The same datasets of many files of this machine, in columns.
//!
//! Law:
//! 1. Each file is opened once, by a few threads, and closed again. It is compared with nothing: what
//!    identifies it comes with the answer.
//! 2. All files answer, or there is no answer: of what is wrong the caller asks file by file.

use super::store::waited;
use super::survey::Survey as Surveyed;
use engine::fetch::local_file::{LocalFile, ReadLock};
use hdf5_format::file::{File, Found};
use hdf5_format::survey::Survey;
use numpy::PyArray1;
use os::interrupt;
use pyo3::prelude::*;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::{Builder, available_parallelism};

/// Device, inode, size and time of change.
type State = [u64; 4];
/// What identifies files, and of each path the survey of its objects, one in each file.
type Answer = (Vec<State>, Vec<Survey>);
type Columns<'py> = (Bound<'py, PyArray1<u64>>, Vec<Surveyed>);

/// What the datasets of these paths are in each file: the states of the files, four words each, and for
/// each path their survey. None: a file cannot be read like this.
#[pyfunction]
pub fn survey_files<'py>(
    py: Python<'py>,
    names: Vec<PathBuf>,
    paths: Vec<Vec<u8>>,
    takes_locks: bool,
) -> PyResult<Option<Columns<'py>>> {
    let Some((states, surveys)) = waited(py, || all(&names, &paths, takes_locks))? else {
        return Ok(None);
    };
    let states = PyArray1::from_vec(py, states.into_flattened());
    Ok(Some((
        states,
        surveys.into_iter().map(Surveyed::from).collect(),
    )))
}

fn all(names: &[PathBuf], paths: &[Vec<u8>], takes_locks: bool) -> Option<Answer> {
    let n_threads = available_parallelism().map_or(1, usize::from);
    let mut parts = names.chunks(names.len().div_ceil(n_threads).max(1));
    let flag = &interrupt::flag();
    let some = |part: &[PathBuf]| some(part, paths, takes_locks);
    std::thread::scope(|scope| {
        let first = parts.next();
        let others: Vec<_> = parts
            .map(|part| {
                let help = move || interrupt::helping(flag, || some(part));
                (Builder::new().spawn_scoped(scope, help), part)
            })
            .collect();
        let mut answer = some(first.unwrap_or_default());
        for (thread, part) in others {
            let more = match thread {
                Ok(thread) => thread.join().ok().flatten(),
                Err(_) => some(part), // there are no more threads
            };
            answer = answer.zip(more).map(|((mut states, mut surveys), more)| {
                states.extend(more.0);
                let each = surveys.iter_mut().zip(more.1);
                each.for_each(|(survey, more)| survey.append(&more, 0));
                (states, surveys)
            });
        }
        answer
    })
}

fn some(names: &[PathBuf], paths: &[Vec<u8>], takes_locks: bool) -> Option<Answer> {
    let mut states = Vec::with_capacity(names.len());
    let mut surveys: Vec<Survey> = paths.iter().map(|_| Survey::default()).collect();
    for name in names {
        if interrupt::is_stopped() || !LocalFile::may_be(name) {
            return None;
        }
        let _lock = takes_locks.then(|| ReadLock::take(name)).transpose().ok()?;
        let source = Arc::new(LocalFile::open(name).ok()?);
        let state = source.state()?;
        let file = File::open(Box::new(source), true).ok()?;
        if file.is_written || !file.driver.is_empty() || file.end > state[2] {
            return None;
        }
        for (survey, path) in surveys.iter_mut().zip(paths) {
            let Ok(Found::Object(offset)) = file.find(file.root(), path) else {
                return None;
            };
            survey.append(&file.survey(&[offset], false, &[], &()), 0);
        }
        states.push(state);
    }
    Some((states, surveys))
}
