# Interactive shells.
[ -z "${PS1-}" ] && return
shopt -s checkwinsize
if [ "$EUID" = 0 ]; then PS1='\u@\h:\w# '; else PS1='\u@\h:\w\$ '; fi
