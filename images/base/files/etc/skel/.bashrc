# Interactive shells.
case $- in *i*) ;; *) return ;; esac
HISTCONTROL=ignoreboth
shopt -s histappend checkwinsize
alias ls='ls --color=auto' ll='ls -l' la='ls -A' grep='grep --color=auto'
