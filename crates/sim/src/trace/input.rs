//! Files of traces as streams of text, packed or not.

use std::fs::File;
use std::io::{self, BufReader, Cursor, Read};
use std::path::Path;

use flate2::read::MultiGzDecoder;
use ruzstd::decoding::StreamingDecoder;

use super::TraceError;

const GZIP: &[u8] = b"\x1f\x8b";
const ZSTD: &[u8] = b"\x28\xb5\x2f\xfd";

/// Opens `path` for reading; a directory is an error here and not at the first read.
pub(super) fn open(path: &Path) -> Result<File, TraceError> {
    let unreadable = |error| TraceError::Unreadable {
        source_name: path.display().to_string(),
        error,
    };
    let file = File::open(path).map_err(unreadable)?;
    if file.metadata().map_err(unreadable)?.is_dir() {
        return Err(unreadable(io::Error::from(io::ErrorKind::IsADirectory)));
    }
    Ok(file)
}

/// The text of `input`: what begins as gzip or zstd does is unpacked.
pub(super) fn unpack<'a>(mut input: impl Read + 'a) -> io::Result<Box<dyn Read + 'a>> {
    let mut head = Vec::new();
    (&mut input)
        .take(ZSTD.len() as u64)
        .read_to_end(&mut head)?;
    let is_gzip = head.starts_with(GZIP);
    let is_zstd = head == ZSTD;
    let whole = Cursor::new(head).chain(input);
    Ok(if is_gzip {
        Box::new(MultiGzDecoder::new(BufReader::new(whole)))
    } else if is_zstd {
        Box::new(Frames::new(BufReader::new(whole)))
    } else {
        Box::new(whole)
    })
}

/// What is wrong with a frame; its reader's own words are for its programmers.
fn damaged(error: &impl std::error::Error) -> io::Error {
    let mut source: Option<&dyn std::error::Error> = error.source();
    let mut is_cut = error.to_string().contains("UnexpectedEof");
    while let Some(cause) = source {
        is_cut |= cause.to_string().contains("UnexpectedEof");
        source = cause.source();
    }
    io::Error::new(
        io::ErrorKind::InvalidData,
        if is_cut {
            "the zstd data is cut off"
        } else {
            "the zstd data is damaged"
        },
    )
}

/// Unpacks one zstd frame after the other, as the command of that name writes them.
struct Frames<R: Read> {
    state: Option<State<R>>,
}

enum State<R: Read> {
    Between(R),
    Inside(Box<StreamingDecoder<R, ruzstd::decoding::FrameDecoder>>),
}

impl<R: io::BufRead> Frames<R> {
    fn new(input: R) -> Self {
        Self {
            state: Some(State::Between(input)),
        }
    }
}

impl<R: io::BufRead> Read for Frames<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.state.take() {
                None => return Ok(0),
                Some(State::Between(mut input)) => {
                    if input.fill_buf()?.is_empty() {
                        return Ok(0);
                    }
                    let decoder = StreamingDecoder::new(input).map_err(|error| damaged(&error))?;
                    self.state = Some(State::Inside(Box::new(decoder)));
                }
                Some(State::Inside(mut decoder)) => {
                    let read = decoder.read(buffer).map_err(|error| damaged(&error))?;
                    if read > 0 || buffer.is_empty() {
                        self.state = Some(State::Inside(decoder));
                        return Ok(read);
                    }
                    let frame = &decoder.decoder;
                    let told = frame.get_checksum_from_data();
                    if told.is_some() && told != frame.get_calculated_checksum() {
                        let message = "the zstd data is damaged: its checksum differs";
                        return Err(io::Error::new(io::ErrorKind::InvalidData, message));
                    }
                    self.state = Some(State::Between(decoder.into_inner()));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::Compression;
    use flate2::write::GzEncoder;
    use ruzstd::encoding::{CompressionLevel, compress_to_vec};

    use super::*;

    fn text(bytes: &[u8]) -> io::Result<String> {
        let mut text = String::new();
        unpack(bytes)?.read_to_string(&mut text)?;
        Ok(text)
    }

    fn gzip(text: &str) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(text.as_bytes()).expect("memory takes it");
        encoder.finish().expect("memory takes it")
    }

    fn zstd(text: &str) -> Vec<u8> {
        compress_to_vec(text.as_bytes(), CompressionLevel::Fastest)
    }

    #[test]
    fn packed_files_are_unpacked_and_others_left_alone() {
        let long = "a line of text\n".repeat(100_000);
        for text_in in ["", "x", "ab\n", &long] {
            assert_eq!(text(text_in.as_bytes()).expect("text"), text_in);
            assert_eq!(text(&gzip(text_in)).expect("gzip"), text_in);
            assert_eq!(text(&zstd(text_in)).expect("zstd"), text_in);
        }
    }

    #[test]
    fn members_and_frames_follow_each_other() {
        let both = |pack: fn(&str) -> Vec<u8>| [pack("one\n"), pack("two\n")].concat();
        assert_eq!(text(&both(gzip)).expect("gzip"), "one\ntwo\n");
        assert_eq!(text(&both(zstd)).expect("zstd"), "one\ntwo\n");
    }

    #[test]
    fn a_packed_file_that_is_damaged_is_an_error() {
        let long = "a line of text\n".repeat(1_000);
        for mut packed in [gzip(&long), zstd(&long)] {
            assert!(text(&packed).is_ok());
            // The checksum stands at the end; gzip has the length behind it.
            let end = packed.len() - 5;
            packed[end + 1] ^= 1;
            assert!(text(&packed).is_err());
        }
    }

    #[test]
    fn a_packed_file_that_is_cut_is_an_error() {
        let long = "a line of text\n".repeat(10_000);
        for packed in [gzip(&long), zstd(&long)] {
            assert!(text(&packed[..packed.len() / 2]).is_err());
        }
    }
}
