//! Paths that another user may have laid for this one: what is written there would go where that user wants it.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use nix::unistd::geteuid;

/// Returns why a path must not be written to, in a sentence: it, or a directory on the way to it, is a symbolic link (or
/// no ordinary file) of another user, in a directory that others may write.
///
/// The administrator, and whoever owns the directory, could do worse.
#[must_use]
pub fn laid_by_another(path: &Path) -> Option<String> {
    let own = geteuid().as_raw();
    path.ancestors().find_map(|part| {
        let (data, above) = (fs::symlink_metadata(part).ok()?, fs::metadata(part.parent()?).ok()?);
        let is_plain = data.is_file() || data.is_dir();
        let is_trusted = [own, 0, above.uid()].contains(&data.uid());
        (!is_plain && !is_trusted && above.mode() & 0o022 != 0).then(|| {
            let kind = if data.is_symlink() { "a symbolic link" } else { "no ordinary file" };
            format!(
                "{} is {kind} of user {}, in a directory that others may write: remove it, or use another directory",
                part.display(),
                data.uid()
            )
        })
    })
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests lay the paths")]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, chown, lchown, symlink};

    #[test]
    fn a_link_of_another_user_is_refused_where_others_may_write() {
        let folder = tempfile::tempdir().expect("a folder");
        let (shared, link) = (folder.path().join("shared"), folder.path().join("shared/a.out"));
        fs::create_dir(&shared).expect("a folder");
        let mode = |mode| fs::set_permissions(&shared, fs::Permissions::from_mode(mode)).expect("a mode");
        mode(0o1777);
        symlink("/nowhere", &link).expect("a link");
        assert_eq!(laid_by_another(&link), None);
        if lchown(&link, Some(65_534), None).is_err() {
            return; // Only root can make it another's.
        }
        let why = laid_by_another(&link).expect("a reason");
        assert!(why.contains("a.out is a symbolic link of user 65534"), "{why}");
        assert_eq!(laid_by_another(&link.join("below")), Some(why));
        assert_eq!(laid_by_another(&shared.join("b.out")), None);
        // Nobody else can have put it there, or its owner could do worse.
        mode(0o755);
        assert_eq!(laid_by_another(&link), None);
        mode(0o1777);
        chown(&shared, Some(65_534), None).expect("an owner");
        assert_eq!(laid_by_another(&link), None);
    }
}
