//! Refuses paths prepared by another user, so that output does not go to a place of that user's choice.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use nix::fcntl::OFlag;
use nix::unistd::geteuid;

/// Returns a sentence on why a path must not be written: the path, or a directory on the way to it, is
/// another user's symbolic link (or special file) in a directory that others may write.
///
/// Links of the administrator and of the directory's owner are accepted, because these users could do worse
/// anyway.
pub fn laid_by_another(path: &Path) -> Option<String> {
    let user = geteuid().as_raw();
    path.ancestors().find_map(|part| {
        let (data, above) = (fs::symlink_metadata(part).ok()?, fs::metadata(part.parent()?).ok()?);
        let is_plain = data.is_file() || data.is_dir();
        let is_trusted = [user, 0, above.uid()].contains(&data.uid());
        (!is_plain && !is_trusted && above.mode() & 0o022 != 0).then(|| {
            let kind = if data.is_symlink() { "a symbolic link" } else { "a special file" };
            format!(
                "{} is {kind} of user {}, in a directory that other users can write to: remove it, or \
                 use another directory",
                part.display(),
                data.uid()
            )
        })
    })
}

/// Creates the file to which Slurm appends the output of a job, unless it exists. A job may wait for days,
/// and in a sticky directory no other user can replace an existing file with a link. Returns a note for the
/// user.
///
/// # Errors
/// A sentence on why the path must not be written.
#[expect(clippy::disallowed_methods, reason = "the job writes to it")]
pub fn lay_output(path: &Path) -> Result<Option<String>, String> {
    let laid = || laid_by_another(path).map_or(Ok(()), Err);
    laid()?;
    let flags = OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK;
    // If this fails, the node of the job may still be able to create it.
    let _ = OpenOptions::new().append(true).create(true).mode(0o666).custom_flags(flags.bits()).open(path);
    laid()?;
    let above = path.parent().and_then(|folder| Some((folder, fs::metadata(folder).ok()?)));
    let (Some((folder, above)), Ok(data)) = (above, fs::symlink_metadata(path)) else { return Ok(None) };
    let user = geteuid().as_raw();
    // On many systems each user has a private group with the same number.
    let is_private = above.mode() & 0o002 == 0 && above.gid() == user;
    if above.mode() & 0o022 == 0 || is_private {
        return Ok(None);
    }
    let (is_sticky, is_trusted) = (above.mode() & 0o1000 != 0, [user, 0, above.uid()].contains(&data.uid()));
    match (is_sticky, is_trusted) {
        (true, true) => Ok(None),
        (true, false) => Err(format!(
            "{} belongs to user {}, who could replace it with a link: remove it, or use another directory",
            path.display(),
            data.uid()
        )),
        (false, _) => Ok(Some(format!(
            "other users can write to {0} and replace outputs there with links: run chmod +t {0}, or use \
             a directory of your own",
            folder.display()
        ))),
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests lay the paths")]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, chown, lchown, symlink};

    #[test]
    fn an_output_is_made_when_it_is_submitted() {
        let folder = tempfile::tempdir().expect("a folder");
        let (shared, output) = (folder.path().join("shared"), folder.path().join("shared/a.out"));
        assert_eq!(lay_output(&output), Ok(None), "the directory may be there on the nodes");
        fs::create_dir(&shared).expect("a folder");
        let mode = |mode| fs::set_permissions(&shared, fs::Permissions::from_mode(mode)).expect("a mode");
        mode(0o1777);
        assert_eq!(lay_output(&output), Ok(None));
        let data = fs::metadata(&output).expect("is there");
        assert!(data.is_file() && data.len() == 0 && data.mode() & 0o111 == 0, "{data:?}");
        fs::write(&output, "of the submission before\n").expect("written");
        assert_eq!(lay_output(&output), Ok(None));
        assert_eq!(fs::read(&output).expect("is there"), b"of the submission before\n");
        // A link that belongs to the user is allowed.
        let link = shared.join("link.out");
        symlink(folder.path().join("elsewhere"), &link).expect("a link");
        assert_eq!(lay_output(&link), Ok(None));
        assert!(link.is_symlink() && !folder.path().join("elsewhere").exists());
        // Others can remove the file and put a link in its place.
        mode(0o777);
        let note = lay_output(&output).expect("may be written").expect("a note");
        assert!(note.starts_with(&format!("other users can write to {} and", shared.display())), "{note}");
        mode(0o755);
        assert_eq!(lay_output(&output), Ok(None));
    }

    #[test]
    #[expect(clippy::print_stdout, reason = "a skipped test says so")]
    fn an_output_that_another_user_can_replace_is_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        let output = folder.path().join("a.out");
        fs::write(&output, "").expect("written");
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o1777)).expect("a mode");
        if chown(&output, Some(65_534), None).is_err() {
            println!("skipped: only root can give a file to another user");
            return;
        }
        let why = lay_output(&output).expect_err("is refused");
        assert!(why.contains("a.out belongs to user 65534"), "{why}");
        // No other user can have put it there.
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).expect("a mode");
        assert_eq!(lay_output(&output), Ok(None));
    }

    #[test]
    #[expect(clippy::print_stdout, reason = "a skipped test says so")]
    fn a_link_of_another_user_is_refused_where_others_may_write() {
        let folder = tempfile::tempdir().expect("a folder");
        let (shared, link) = (folder.path().join("shared"), folder.path().join("shared/a.out"));
        fs::create_dir(&shared).expect("a folder");
        let mode = |mode| fs::set_permissions(&shared, fs::Permissions::from_mode(mode)).expect("a mode");
        mode(0o1777);
        symlink("/nowhere", &link).expect("a link");
        assert_eq!(laid_by_another(&link), None);
        if lchown(&link, Some(65_534), None).is_err() {
            println!("skipped: only root can give a link to another user");
            return;
        }
        let why = laid_by_another(&link).expect("a reason");
        assert!(why.contains("a.out is a symbolic link of user 65534"), "{why}");
        assert_eq!(laid_by_another(&link.join("below")), Some(why));
        assert_eq!(laid_by_another(&shared.join("b.out")), None);
        // No other user can have put it there, except the directory's owner, who can do greater harm anyway.
        mode(0o755);
        assert_eq!(laid_by_another(&link), None);
        mode(0o1777);
        chown(&shared, Some(65_534), None).expect("an owner");
        assert_eq!(laid_by_another(&link), None);
    }
}
