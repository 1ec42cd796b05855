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
  build release || die 'the release preset does not build'
  say 'clang-tidy'
  run-clang-tidy-19 -quiet -j2 -p "$release" "^$repo/src/.*\\.cc$" 2>/dev/null || failed=1
  say 'shellcheck'
  shell_scripts | xargs -r shellcheck --shell=bash --severity=warning || failed=1
  say 'style'
  tests/style/run || failed=1
  ((failed == 0)) || die 'lint found something'
}

shell_scripts() {
  {
    git ls-files --cached --others --exclude-standard '*.sh'
    git grep -lE --untracked '^#!/bin/(ba)?sh'
  } | sort -u
}
