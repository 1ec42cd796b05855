# Formatting and static checks.
# shellcheck shell=bash

cpp_files() { git ls-files --cached --others --exclude-standard '*.cc' '*.h' '*.c'; }

command_fmt() {
  case ${1-} in
    '') cpp_files | xargs -r clang-format-19 -i ;;
    --check) cpp_files | xargs -r clang-format-19 --dry-run --Werror ;;
    *) die "fmt: unknown argument '$1'" ;;
  esac
}

command_lint() {
  local failed=0
  build dev >/dev/null || die 'the dev preset does not build'
  say 'clang-tidy'
  run-clang-tidy-19 -quiet -p "$repo/build/dev" "^$repo/src/.*\\.cc$" 2>/dev/null || failed=1
  say 'shellcheck'
  git ls-files --cached --others --exclude-standard '*.sh' tools/dev .ci/run 'tests/*/run' |
    xargs -r shellcheck --shell=bash --severity=warning || failed=1
  say 'style'
  tests/style/run || failed=1
  ((failed == 0)) || die 'lint found something'
}
