//! The terminal of the live display: entering it, restoring it in all cases, and reading keys.

#![expect(clippy::disallowed_methods, reason = "the process that restores the terminal cannot be this one")]

use std::io::{self, IsTerminal, Stdout, Write as _};
use std::os::fd::AsFd as _;
use std::panic;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::thread;
use std::time::Duration;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigSet, Signal, raise};
use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{
    EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};

use crate::top::{TopView, draw};

/// A typed key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyPress {
    Up,
    Down,
    PageUp,
    PageDown,
    First,
    Last,
    Letter(char),
    Enter,
    Escape,
    Interrupt,
    /// The terminal has a new size or is in the foreground again.
    Redraw,
}

/// The terminal in drawing mode. Dropping it restores the terminal, as does a panic; if this process is
/// killed, a small helper process restores it.
pub struct TopScreen {
    terminal: Terminal<CrosstermBackend<Stdout>>,
    rescue: Option<Rescue>,
    colour: bool,
}

impl TopScreen {
    /// Enters the drawing mode.
    ///
    /// # Errors
    /// If stdin or stdout is not a terminal, or drawing is impossible.
    pub fn enter(colour: bool) -> io::Result<Self> {
        if !io::stdin().is_terminal() || !io::stdout().is_terminal() {
            return Err(io::Error::other("stdin and stdout are no terminal"));
        }
        end_with_terminal()?;
        let rescue = Rescue::start().ok();
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |panic| {
            leave();
            before(panic);
        }));
        enter()?;
        Ok(Self { terminal: Terminal::new(CrosstermBackend::new(io::stdout()))?, rescue, colour })
    }

    /// Draws a view.
    ///
    /// # Errors
    /// If the terminal was closed.
    pub fn draw(&mut self, view: &TopView) -> io::Result<()> {
        let colour = self.colour;
        self.terminal.draw(|frame| draw(frame, view, colour)).map(drop)
    }

    /// Returns the next key within a time; `None` if there is none, or if the next event is not a known key.
    ///
    /// # Errors
    /// If the terminal was closed.
    pub fn key(&mut self, within: Duration) -> io::Result<Option<KeyPress>> {
        if !event::poll(within)? {
            return Ok(None);
        }
        Ok(key(&event::read()?))
    }

    /// Leaves the drawing mode for a function that prints normally, and waits for a key afterwards.
    ///
    /// # Errors
    /// If the terminal was closed.
    pub fn aside(&mut self, act: impl FnOnce()) -> io::Result<()> {
        leave();
        act();
        // This must come first; otherwise an Enter that is typed at once would be read as a line feed.
        enable_raw_mode()?;
        write!(io::stdout().lock(), "\r\npress Enter to go back\r\n")?;
        while !matches!(
            key(&event::read()?),
            Some(KeyPress::Enter | KeyPress::Escape | KeyPress::Interrupt | KeyPress::Letter('q'))
        ) {}
        enter()?;
        self.terminal.clear()
    }
}

impl Drop for TopScreen {
    fn drop(&mut self) {
        leave();
        if let Some(rescue) = self.rescue.take() {
            rescue.end();
        }
        drop(panic::take_hook());
    }
}

/// Starts a thread that ends this process when its terminal closes, as SIGHUP would if it were not blocked:
/// crossterm reads a closed terminal in an endless loop.
fn end_with_terminal() -> io::Result<()> {
    let wait = || {
        let stdin = io::stdin();
        // Without requested events, only the end of the terminal wakes `poll`.
        let mut asked = [PollFd::new(stdin.as_fd(), PollFlags::empty())];
        while poll(&mut asked, PollTimeout::NONE) == Err(Errno::EINTR) {}
        if SigSet::from(Signal::SIGHUP).thread_unblock().is_ok() {
            let _ = raise(Signal::SIGHUP);
        }
    };
    thread::Builder::new().name("terminal".into()).spawn(wait).map(drop)
}

fn enter() -> io::Result<()> {
    enable_raw_mode()?;
    execute!(io::stdout(), EnterAlternateScreen)
}

/// Restores the terminal as far as possible.
fn leave() {
    let _ = execute!(io::stdout(), LeaveAlternateScreen, ratatui::crossterm::cursor::Show);
    let _ = disable_raw_mode();
}

fn key(event: &Event) -> Option<KeyPress> {
    let Event::Key(key) = event else {
        return matches!(event, Event::Resize(..) | Event::FocusGained).then_some(KeyPress::Redraw);
    };
    if key.kind == KeyEventKind::Release {
        return None;
    }
    Some(match key.code {
        KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => KeyPress::Interrupt,
        KeyCode::Up | KeyCode::Char('k') => KeyPress::Up,
        KeyCode::Down | KeyCode::Char('j') => KeyPress::Down,
        KeyCode::PageUp => KeyPress::PageUp,
        KeyCode::PageDown => KeyPress::PageDown,
        KeyCode::Home => KeyPress::First,
        KeyCode::End => KeyPress::Last,
        KeyCode::Enter => KeyPress::Enter,
        KeyCode::Esc => KeyPress::Escape,
        KeyCode::Char(letter) => KeyPress::Letter(letter),
        _ => return None,
    })
}

/// A process that restores the terminal if this one ends without notice, for example when it is killed.
struct Rescue {
    child: Child,
    word: ChildStdin,
}

/// Saves the terminal's settings, and restores them unless it reads the line `done`. It ignores SIGTTOU, so
/// that it can write to the terminal from the background.
const RESCUE: &str = r#"trap '' TTOU INT HUP TERM QUIT TSTP
saved=$(stty -g </dev/tty) || exit
printf 'ready\n'
IFS= read -r word
if [ "$word" != done ]; then
  printf '\033[?1049l\033[?25h\r' >/dev/tty
  stty "$saved" </dev/tty
fi"#;

impl Rescue {
    /// Starts the process and waits until it has saved the settings.
    fn start() -> io::Result<Self> {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", RESCUE]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn()?;
        let word = child.stdin.take().ok_or_else(|| io::Error::other("no pipe"))?;
        let mut ready = String::new();
        if let Some(said) = child.stdout.take() {
            io::BufRead::read_line(&mut io::BufReader::new(said), &mut ready)?;
        }
        Ok(Self { child, word })
    }

    fn end(mut self) {
        let _ = self.word.write_all(b"done\n");
        drop(self.word);
        let _ = self.child.wait();
    }
}
