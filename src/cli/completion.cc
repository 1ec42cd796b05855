#include "cli/completion.h"

#include <algorithm>

#include "cli/api_client.h"
#include "cli/output.h"
#include "cli/sandbox_lookup.h"

namespace space::cli {

namespace {

constexpr Millis api_patience{2000};

constexpr std::string_view bash_script =
    R"(# space: completion for bash. Try it: source <(space completion bash)
_space() {
  local line files=
  COMPREPLY=()
  while IFS= read -r line; do
    if [[ $line == :files ]]; then files=1; else COMPREPLY+=("${line%%$'\t'*}"); fi
  done < <("${COMP_WORDS[0]}" __complete "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
  [[ ${#COMPREPLY[@]} == 1 && ${COMPREPLY[0]} == *: ]] && compopt -o nospace
  if [[ -n $files ]]; then
    compopt -o filenames
    while IFS= read -r line; do COMPREPLY+=("$line"); done < <(compgen -f -- "${COMP_WORDS[COMP_CWORD]}")
  fi
}
complete -F _space space
)";

constexpr std::string_view zsh_script = R"(#compdef space
# space: completion for zsh. Try it: source <(space completion zsh)
_space() {
  local -a lines described
  local line files
  lines=("${(@f)$(${words[1]} __complete "${(@)words[2,CURRENT]}" 2>/dev/null)}")
  for line in $lines; do
    if [[ $line == :files ]]; then files=1
    elif [[ $line == *$'\t'* ]]; then described+=("${${line%%$'\t'*}//:/\\:}:${line#*$'\t'}")
    elif [[ -n $line ]]; then described+=("${line//:/\\:}"); fi
  done
  (( $#described )) && _describe space described
  [[ -n $files ]] && _files
}
if [[ $funcstack[1] == _space ]]; then _space; else compdef _space space; fi
)";

constexpr std::string_view fish_script =
    R"(# space: completion for fish. Try it: space completion fish | source
function __space_complete
  set -l typed (commandline -opc) (commandline -ct)
  for line in ($typed[1] __complete $typed[2..-1] 2>/dev/null)
    if test "$line" = ':files'
      __fish_complete_path (commandline -ct)
    else
      echo $line
    end
  end
end
complete -c space -f -a '(__space_complete)'
)";

// Where the words before the cursor lead.
struct Position {
  const CLI::App* command = nullptr;
  const CLI::Option* value_of = nullptr;  // the option whose value is to come
  std::size_t arguments = 0;              // positional ones so far
  bool options_over = false;              // after "--"
};

const CLI::Option* find_option(const CLI::App* command, const std::string& word) {
  for (; command != nullptr; command = command->get_parent())
    for (const CLI::Option* option : command->get_options({}))
      if (option->check_name(word)) return option;
  return nullptr;
}

// The option that takes the next word as its value.
const CLI::Option* awaits_value(const CLI::App* command, const std::string& word) {
  if (word.find('=') != std::string::npos) return nullptr;
  // In "-it" only the last may take one.
  const bool letters = word.size() > 2 && word[1] != '-';
  const CLI::Option* option = find_option(command, letters ? "-" + word.substr(word.size() - 1) : word);
  return option != nullptr && option->get_items_expected_max() > 0 ? option : nullptr;
}

const CLI::App* find_subcommand(const CLI::App* command, const std::string& word) {
  for (const CLI::App* candidate : command->get_subcommands({}))
    if (candidate->get_name() == word) return candidate;
  return nullptr;
}

Position follow(const CLI::App& app, const std::vector<std::string>& words) {
  Position at{.command = &app};
  for (std::size_t i = 0; i + 1 < words.size(); ++i) {
    const std::string& word = words[i];
    if (at.value_of != nullptr) {
      at.value_of = nullptr;
    } else if (at.options_over) {
      ++at.arguments;
    } else if (word == "--") {
      at.options_over = true;
    } else if (word.starts_with('-') && word.size() > 1) {
      at.value_of = awaits_value(at.command, word);
    } else if (const CLI::App* next = at.arguments == 0 ? find_subcommand(at.command, word) : nullptr) {
      at.command = next;
    } else {
      ++at.arguments;
    }
  }
  return at;
}

void add(Completion& found, const std::string& typed, std::string text, std::string help) {
  if (text.starts_with(typed)) found.words.push_back({std::move(text), help.substr(0, help.find('\n'))});
}

void add_options(Completion& found, const std::string& typed, const CLI::App* command) {
  for (; command != nullptr; command = command->get_parent()) {
    for (const CLI::Option* option : command->get_options({})) {
      for (const std::string& name : option->get_lnames())
        add(found, typed, "--" + name, option->get_description());
      for (const std::string& name : option->get_snames())
        add(found, typed, "-" + name, option->get_description());
    }
  }
}

// The positional argument that comes after `count` others; the last may be repeated.
const CLI::Option* argument_at(const CLI::App* command, std::size_t count) {
  const CLI::Option* last = nullptr;
  for (const CLI::Option* option : command->get_options({})) {
    if (!option->get_positional()) continue;
    last = option;
    const auto takes = static_cast<std::size_t>(std::max(option->get_items_expected_max(), 1));
    if (count < takes) return option;
    count -= takes;
  }
  return last != nullptr && last->get_items_expected_max() > 1 ? last : nullptr;
}

void add_argument(Completion& found, const Position& at, const std::string& typed) {
  const CLI::Option* argument = argument_at(at.command, at.arguments);
  if (argument == nullptr) return;
  const std::string name = argument->get_name(true);
  found.sandboxes = name == "sandbox";
  if (name == "path" && at.command->get_name() == "cp") {
    found.sandboxes = true;
    found.after_id = ":";
    found.files = true;
  }
  if (name == "shell")
    for (const char* shell : {"bash", "zsh", "fish"}) add(found, typed, shell, "");
  if (name == "policy")
    for (const char* policy : {"disk", "checkpoint", "none"}) add(found, typed, policy, "");
  if (name == "word")
    for (const char* word : {"default", "off"}) add(found, typed, word, "");
}

void print_candidate(const std::string& text, const std::string& help) {
  print_line(help.empty() ? text : text + "\t" + help);
}

void print_sandboxes(const CommonOptions& common, const std::string& typed, const std::string& after) {
  const auto api = make_client(common);
  if (!api) return;
  const auto sandboxes =
      run_loop(with_deadline(list_sandboxes(*api), Deadline::after(api_patience), "listing sandboxes"));
  if (!sandboxes) return;
  for (const std::string& id : ids_of(*sandboxes))
    if (id.starts_with(typed)) print_candidate(printable(id + after), "");
}

}  // namespace

Completion complete(const CLI::App& app, const std::vector<std::string>& words) {
  Completion found;
  const std::string typed = words.empty() ? "" : words.back();
  const Position at = follow(app, words);
  if (at.value_of != nullptr) {
    found.files = true;
  } else if (typed.starts_with('-') && !at.options_over) {
    add_options(found, typed, at.command);
  } else if (const auto subcommands = at.command->get_subcommands({});
             !subcommands.empty() && at.arguments == 0) {
    for (const CLI::App* command : subcommands)
      add(found, typed, command->get_name(), command->get_description());
    add_argument(found, at, typed);  // of those that do something without one, too
  } else {
    add_argument(found, at, typed);
  }
  return found;
}

std::string_view completion_script(std::string_view shell) {
  if (shell == "bash") return bash_script;
  if (shell == "zsh") return zsh_script;
  if (shell == "fish") return fish_script;
  return "";
}

int command_complete(Program& program, std::vector<std::string> words) {
  const std::string typed = words.empty() ? "" : words.back();
  const Completion found = complete(program.app, words);
  for (const Completion::Candidate& candidate : found.words) print_candidate(candidate.text, candidate.help);
  if (found.sandboxes) print_sandboxes(program.common, typed, found.after_id);
  if (found.files) print_line(":files");
  return 0;
}

void add_completion(Program& program) {
  CLI::App* command =
      program.app.add_subcommand("completion", "Print the completion function of a shell: bash, zsh, fish");
  const auto shell = std::make_shared<std::string>();
  command->add_option("shell", *shell, "bash, zsh or fish")
      ->required()
      ->check(CLI::IsMember({"bash", "zsh", "fish"}));
  command->footer(
      "Completes commands, flags and the ids of live sandboxes.\n\n"
      "Examples:\n"
      "  space completion bash | sudo tee /etc/bash_completion.d/space\n"
      "  space completion zsh > \"${fpath[1]}/_space\"\n"
      "  space completion fish > ~/.config/fish/completions/space.fish");
  command->callback([&program, shell] {
    fmt::print("{}", completion_script(*shell));
    program.code = 0;
  });
}

}  // namespace space::cli
