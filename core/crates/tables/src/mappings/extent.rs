//! Virtual datasets that grow with their sources: how long they are by now, and what they show.
//!
//! Law:
//! 1. The extent is that of the longest mapping, as HDF5's view "last available" has it, and no shorter
//!    than what other mappings show. Of sources with numbered names, the first one that is missing ends
//!    the mapping. There are at most `MAX_STEPS` of both.
//! 2. A source that is missing has no extent.
//!
//! Source: the reference manual of `H5Pset_virtual` and `H5Pset_virtual_view`.

use super::Unfit;
use super::selections::{Axis, regular};
use hdf5_format::dataspace::UNLIMITED;
use hdf5_format::virtual_layout::{Mapping, Selection};
use std::collections::HashMap;
use std::sync::Arc;

/// Mappings that those without an end stand for, all together.
const MAX_STEPS: usize = 1 << 18;
/// No axis is as long.
const FAR: u64 = 1 << 62;
const ODD: &str = "a virtual dataset that grows, with mappings of odd shapes";

/// File and dataset of a source.
pub type Name = (Arc<[u8]>, Arc<[u8]>);
/// Of a source; `None`: it is missing.
pub type Dims = Option<Vec<u64>>;

/// Whether a virtual dataset of these mappings is as long as its sources are by now.
pub fn grows(mappings: &[Mapping]) -> bool {
    mappings.iter().any(|mapping| match &mapping.in_virtual {
        Selection::Regular(axes) => axes.as_flattened().contains(&UNLIMITED),
        Selection::Blocks { bounds, .. } => bounds.contains(&UNLIMITED),
        _ => false,
    })
}

/// Mappings that have ends, and the dims of the virtual dataset. What does not grow is as long as in
/// `dims`; `extent` gives the dims of a source, `None` if it is missing.
pub fn grown<E>(
    mappings: &[Mapping],
    dims: &[u64],
    extent: &mut dyn FnMut(&Name) -> Result<Dims, E>,
) -> Result<(Vec<Mapping>, Vec<u64>), Unfit<E>> {
    let mut known: HashMap<Name, Dims> = HashMap::new();
    let mut dims_of = |name: &Name| -> Result<Dims, Unfit<E>> {
        if let Some(known) = known.get(name) {
            return Ok(known.clone());
        }
        let found = extent(name).map_err(Unfit::Failed)?;
        known.insert(name.clone(), found.clone());
        Ok(found)
    };
    let (mut found, mut dims) = (Vec::new(), dims.to_vec());
    let mut ends: Vec<Option<u64>> = vec![None; dims.len()];
    let (mut kept, mut n_steps) = (Vec::new(), 0);
    for mapping in mappings {
        let shown = axes_of(&mapping.in_virtual);
        let Some(at) = shown
            .as_deref()
            .and_then(endless)
            .filter(|&at| at < dims.len())
        else {
            kept.push(regular(&mapping.in_virtual, &dims).ok_or_else(|| Unfit::because(ODD))?);
            found.push(mapping.clone());
            continue;
        };
        let shown = shown.unwrap_or_default();
        let mut length = 0;
        steps(mapping, shown[at], &mut dims_of, &mut |step: Step| {
            n_steps += 1;
            if n_steps > MAX_STEPS {
                let why = format!("a virtual dataset that grows, with over {MAX_STEPS} sources");
                return Err(Unfit::because(why));
            }
            let mut whole = shown.clone();
            whole[at] = part(shown[at], step.begin, step.count)?;
            length = step.begin + step.count;
            found.push(Mapping {
                file: step.name.0,
                dataset: step.name.1,
                in_source: step.named,
                in_virtual: selection(&whole),
            });
            Ok(())
        })?;
        let end = extent_of(shown[at], length)?;
        ends[at] = Some(ends[at].unwrap_or(0).max(end));
    }
    for (axis, end) in ends.into_iter().enumerate() {
        let Some(end) = end else { continue };
        let reach = kept
            .iter()
            .map(|axes| u64::try_from(axes[axis].end()).unwrap_or(0));
        dims[axis] = reach.max().unwrap_or(0).max(end);
    }
    Ok((found, dims))
}

fn axes_of(selection: &Selection) -> Option<Vec<Axis>> {
    match selection {
        Selection::Regular(axes) => Some(axes.iter().copied().map(Axis::new).collect()),
        _ => None,
    }
}

fn selection(axes: &[Axis]) -> Selection {
    let each = axes.iter();
    Selection::Regular(
        each.map(|of| [of.start, of.stride, of.count, of.block])
            .collect(),
    )
}

/// The axis along which a selection has no end.
fn endless(axes: &[Axis]) -> Option<usize> {
    let has_no_end = |axis: &Axis| [axis.count, axis.block].contains(&UNLIMITED);
    axes.iter().position(has_no_end)
}

/// A source, the selection in it, and which elements of the endless axis these are.
struct Step {
    name: Name,
    named: Selection,
    begin: u64,
    count: u64,
}

fn steps<E>(
    mapping: &Mapping,
    shown: Axis,
    dims_of: &mut dyn FnMut(&Name) -> Result<Dims, Unfit<E>>,
    add: &mut dyn FnMut(Step) -> Result<(), Unfit<E>>,
) -> Result<(), Unfit<E>> {
    let name = (mapping.file.clone(), mapping.dataset.clone());
    let named = axes_of(&mapping.in_source);
    let Some((named, at)) = named.and_then(|axes| endless(&axes).map(|at| (axes, at))) else {
        let is_numbered = numbered(&name, 0) != numbered(&name, 1);
        for number in 0..if is_numbered { 1 << 32 } else { 1u64 } {
            let of = numbered(&name, number);
            if dims_of(&of)?.is_none() {
                break;
            }
            let begin = number.checked_mul(shown.block);
            let begin = begin.filter(|&begin| begin < FAR && shown.block < FAR);
            let begin = begin.ok_or_else(|| Unfit::because(ODD))?;
            let named = mapping.in_source.clone();
            add(Step {
                name: of,
                named,
                begin,
                count: shown.block,
            })?;
        }
        return Ok(());
    };
    let dims = dims_of(&name)?.filter(|dims| dims.len() == named.len());
    let length = dims.map_or(Ok(0), |dims| length_of(named[at], dims[at]))?;
    let whole = match is_dense(shown) {
        true => length,
        false => length - length.checked_rem(shown.block).unwrap_or(length),
    };
    for (begin, end) in [(0, whole), (whole, length)] {
        if end > begin {
            let mut axes = named.clone();
            axes[at] = part(named[at], begin, end - begin)?;
            let (name, named) = (name.clone(), selection(&axes));
            add(Step {
                name,
                named,
                begin,
                count: end - begin,
            })?;
        }
    }
    Ok(())
}

/// A name with a number in place of "%b".
fn numbered(name: &Name, number: u64) -> Name {
    let text = |text: &Arc<[u8]>| -> Arc<[u8]> {
        if !text.contains(&b'%') {
            return text.clone();
        }
        let (mut made, mut rest) = (Vec::new(), &text[..]);
        while let Some((&letter, behind)) = rest.split_first() {
            rest = behind;
            match (letter, behind.first()) {
                (b'%', Some(b'b')) => made.extend(number.to_string().into_bytes()),
                (b'%', Some(b'%')) => made.push(b'%'),
                _ => {
                    made.push(letter);
                    continue;
                }
            }
            rest = &behind[1..];
        }
        made.into()
    };
    (text(&name.0), text(&name.1))
}

fn is_dense(axis: Axis) -> bool {
    axis.block == UNLIMITED || axis.stride == axis.block
}

/// How many elements a selection without an end has along an axis of this length.
fn length_of<E>(axis: Axis, dim: u64) -> Result<u64, Unfit<E>> {
    let inside = dim.saturating_sub(axis.start);
    match axis.stride {
        _ if is_dense(axis) => Ok(inside),
        0 => Err(Unfit::because(ODD)),
        stride => {
            let blocks = (inside / stride).checked_mul(axis.block);
            let length = blocks.and_then(|n| n.checked_add((inside % stride).min(axis.block)));
            length
                .filter(|&n| n < FAR)
                .ok_or_else(|| Unfit::because(ODD))
        }
    }
}

/// How long an axis is of which this many elements are selected.
fn extent_of<E>(axis: Axis, length: u64) -> Result<u64, Unfit<E>> {
    let [start, stride, block, length] =
        [axis.start, axis.stride, axis.block, length].map(i128::from);
    let end = match length {
        0 => 0,
        _ if is_dense(axis) => start + length,
        _ if block == 0 => return Err(Unfit::because(ODD)),
        _ if length % block > 0 => start + stride * (length / block) + length % block,
        _ => start + stride * (length / block - 1) + block,
    };
    let end = u64::try_from(end).ok().filter(|&end| end < FAR);
    end.ok_or_else(|| Unfit::because(ODD))
}

/// Some of the elements of a selection without an end.
fn part<E>(axis: Axis, begin: u64, count: u64) -> Result<Axis, Unfit<E>> {
    let start = axis
        .start
        .checked_add(begin)
        .ok_or_else(|| Unfit::because(ODD))?;
    if is_dense(axis) {
        return Ok(Axis::new([start, 1, 1, count]));
    }
    let is_whole = |n: u64| n.checked_rem(axis.block) == Some(0);
    let first = begin
        .checked_div(axis.block)
        .and_then(|n| n.checked_mul(axis.stride));
    let first = first.and_then(|by| by.checked_add(axis.start));
    match first.filter(|_| is_whole(begin)) {
        Some(first) if is_whole(count) => Ok(Axis::new([
            first,
            axis.stride,
            count / axis.block,
            axis.block,
        ])),
        Some(first) if count < axis.block => Ok(Axis::new([first, 1, 1, count])),
        _ => Err(Unfit::because(
            "a virtual dataset that grows by parts of blocks",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::convert::Infallible;

    fn mapping(dataset: &[u8], in_source: [u64; 4], in_virtual: [u64; 4]) -> Mapping {
        Mapping {
            file: b"."[..].into(),
            dataset: dataset.into(),
            in_source: Selection::Regular(vec![in_source]),
            in_virtual: Selection::Regular(vec![in_virtual]),
        }
    }

    fn dims(mapping: &Mapping, lengths: &[u64]) -> Vec<u64> {
        let mut left = lengths.iter();
        let mut extent = |_: &Name| Ok::<_, Infallible>(left.next().map(|&dim| vec![dim]));
        grown(std::slice::from_ref(mapping), &[4], &mut extent)
            .unwrap()
            .1
    }

    #[test]
    fn a_name_that_is_the_same_for_each_number_is_one_source() {
        let end = [0, 4, UNLIMITED, 4];
        assert_eq!(dims(&mapping(b"a%%", [0, 1, 1, 4], end), &[4; 9]), [4]);
        assert_eq!(dims(&mapping(b"a%b", [0, 1, 1, 4], end), &[4; 9]), [36]);
    }

    #[test]
    fn an_axis_is_as_long_as_its_source() {
        let all = [0, 1, UNLIMITED, 1];
        assert_eq!(dims(&mapping(b"a", all, [2, 3, UNLIMITED, 1]), &[5]), [15]);
        assert_eq!(
            dims(
                &mapping(b"a", [0, 1, 1, UNLIMITED], [7, 1, 1, UNLIMITED]),
                &[5]
            ),
            [12]
        );
        assert_eq!(dims(&mapping(b"a", all, all), &[]), [0]);
    }
}
