"""What people write when they greet, ask, order, claim consent or try to get around the rules."""

from __future__ import annotations

import re

from services.agent.domain.text import clauses


def _any(*alternatives: str) -> re.Pattern[str]:
    return re.compile("|".join(alternatives), re.IGNORECASE)


GREETING = re.compile(
    r"^\W*(?:hi|hello|hey|good (?:morning|afternoon|evening)|thanks?|thank you(?: very much| so much)?|many thanks|thx|"
    r"cheers|bye|goodbye|ok(?:ay)?|great|你好|您好|早上好|下午好|晚上好|大家好|嗨|谢谢|多谢|感谢|再见|好的|辛苦了)"
    r"(?:[\s,，]*(?:there|team|all|again|a lot|everyone|您|你|啦|了))*\W*$",
    re.IGNORECASE,
)

# Whoever writes this in a chat has decided nothing: decisions are made on the proposal's page (A6).
CONSENT = _any(
    r"^\W*(?:yes\W+)?(?:i|we)\s+(?:hereby\s+)?(?:do\s+)?(?:confirm|approve|agree|consent|authorize|authorise|accept)\b",
    r"^\W*(?:yes|confirmed|approved|agreed|go ahead|do it|proceed)\b(?!.*\?)",
    r"\b(?:user|customer|manager|boss|finance|dave|approver)\b[^.?]*\b(?:has|have|had|already)?\s*"
    r"(?:agreed|confirmed|approved|consented)\b",
    r"^\W*(?:是的?|好的?)?[，,\s]*(?:我|我们)?(?:已经|已|现在|确定)?(?:确认|同意|批准|授权|认可)(?!吗|流程|单|人|权|制度|表|函)",
    r"(?:用户|客户|经理|领导|老板|财务|审批人|主管)[^，。？?]{0,8}(?:已经|已|都)?(?:同意|确认|批准)了?(?!吗)",
)

# Asks to be freed from policy, approval or role; also what a document must never talk a reader into.
MANIPULATION = _any(
    r"\b(?:ignore|disregard|forget|override)\b.{0,30}\b(?:instructions?|rules?|polic(?:y|ies)|prompts?|guardrails?)\b",
    r"\b(?:bypass|skip|circumvent|disable|turn off|get around)\b.{0,25}"
    r"\b(?:approvals?|polic(?:y|ies)|checks?|controls?|audit)\b",
    r"\b(?:administrator|admin|developer|god|root|debug) mode\b",
    r"\b(?:pretend|act) (?:to be|as|that you are)\b.{0,20}\b(?:admin\w*|approver|finance|dave|system|root)\b",
    r"\b(?:reveal|show|print|dump|give)\b.{0,20}\b(?:system prompt|passwords?|secrets?|api keys?|credentials)\b",
    r"(?:忽略|无视|忘记).{0,10}(?:指令|规则|提示|制度|要求)",
    r"(?:绕过|跳过|规避|关闭|免去).{0,8}(?:审批|批准|策略|权限|检查|审计|确认)",
    r"(?:管理员|开发者|调试)模式",
    r"(?:假装|扮演|冒充).{0,10}(?:管理员|审批人|财务|系统)",
    r"(?:泄露|告诉我|显示|输出).{0,8}(?:系统提示词?|密码|密钥|口令)",
)

# Harmless in a question about the rules, not in a request for an action.
UNAPPROVED = _any(
    r"\bwithout\b.{0,25}\b(?:approvals?|asking|confirmation|checks?)\b",
    "(?:不经|不用|无需|不需要).{0,8}(?:审批|批准|确认|检查)",
)

REFUND = _any(
    r"\brefund(?:s|ed|ing)?\b", r"\b(?:money|pay|paid) back\b", r"\breimburse customer\b", "退款", "退钱", "退还"
)
CANCEL = _any(r"\bcancel(?:l?ed|l?ing|lation)?\b", "取消", "撤销订单")
TICKET = _any(r"\btickets?\b", r"\bsupport case\b", "工单", "报修单")
NOTE = _any(r"\bnotes?\b", r"\bremarks?\b", r"\bannotat\w+\b", "备注", "批注")
APPROVAL = _any(
    r"\b(?:request|ask for|get|need|apply for|submit)\b.{0,30}\bapproval\b",
    "(?:申请|提交|请求|发起).{0,20}(?:审批|批准)",
    "(?:审批|批准)申请",
)
ACTIONS = {"refund": REFUND, "cancel": CANCEL, "ticket": TICKET, "note": NOTE, "approval": APPROVAL}

_IMPERATIVE = _any(
    r"^\W*(?:(?:please|pls|kindly|now|then|and|also|just)\s+)*(?:please\s+)?"
    r"(?:refund|pay back|give .{1,30} back|cancel|create|open|file|raise|log|add|leave|write|attach|put|request|ask|"
    r"submit|issue|make|process)\b",
    r"\b(?:can|could|would|will) you\b",
    r"\bplease\b",
    r"\b(?:i|we)(?:'d| would)? (?:want|like|need|wish)\b",
    r"\bneeds? (?:a refund|to be (?:refunded|cancell?ed))\b",
    r"^\W*(?:请|麻烦|帮|给|把|将|为|对|我要|我想|需要|申请|立即|马上|现在|新建|创建|提交|开|建|取消|退款|备注|添加|加)",
    r"(?:请|帮我|帮忙|麻烦|给我|我要|我想|需要|要求?(?:退款|退钱|取消))",
    r"^\W*(?:订单\s*)?[A-Za-z]\d{3,}\s*(?:退款|退钱|取消)(?!了|中|成功|失败)",
)
_ASKS_ABOUT = _any(
    r"^\W*(?:what|how|when|where|which|who|why|is|are|was|were|does|do|did|has|have|show|list|find|check|look up|"
    r"tell me)\b",
    r"(?:吗|么|呢)\W*$",
    "什么|多少|怎么|如何|哪|几天|为什么|是否|有没有|了没|状态|记录|情况|进度|查询|查一下|查看|看看|规定|政策|流程|条件",
)

RECORDS = _any(
    r"\b(?:orders?|shipments?|parcels?|packages?|deliver(?:y|ies)|tracking|customers?|clients?)\b",
    "订单|物流|快递|发货|包裹|运单|客户|顾客|工单",
)
RECORD_QUESTION = _any(
    r"\b(?:my|our|all|list|show|open|recent|latest)\b.{0,20}\b(?:orders?|shipments?|refunds?|customers?|tickets?)\b",
    r"\bwhere is\b.{0,20}\b(?:order|parcel|package|shipment)\b",
    "(?:我的|我们的|所有|全部|最近|列出|查询|查看|查一下|有哪些).{0,8}(?:订单|退款|物流|快递|客户|工单)",
)

VERSION = _any(
    r"\b(?:version|edition|revision)\s*(?:no\.?\s*)?\d",
    r"\bv\d+\b",
    r"\b(?:first|second|third|previous|old(?:er)?|earlier|prior|archived|draft)\s+(?:version|edition|revision)\b",
    "第[一二三四五六七八九十0-9]+版",
    "版本\\s*[一二三四五六七八九十0-9]",
    "旧版|老版|历史版本|上一版|上个版本|之前的版本|归档版|草稿版",
)
READS_VERSION = _any(
    r"\b(?:read|show|open|content|contents|text|wording|full|say|says|said|contain|print|display|what|see)\b",
    "内容|全文|原文|怎么写|写了什么|写的|怎么说|说了什么|打开|读|显示|查看|看看|是什么|多少",
)
SUMMARY = _any(
    r"\bsummar(?:y|ies|ize|ise|izing)\b", r"\boverview of\b", r"\bkey points\b", "总结|概括|摘要|概述|要点|归纳"
)
COMPARE = _any(
    r"\b(?:compare|comparison|difference|differ|versus|vs\.?)\b",
    r"\bboth\b.{0,40}\band\b",
    "对比|比较|区别|差别|差异|不同|分别",
)


def is_request(text: str, about: re.Pattern[str]) -> bool:
    """Whether some clause orders what `about` names, rather than asking about it."""
    return any(
        about.search(clause) and _IMPERATIVE.search(clause) and not _merely_asks(clause) for clause in _spoken(text)
    )


def _merely_asks(clause: str) -> bool:
    if re.search(r"\b(?:can|could|would|will) you\b|请|帮|麻烦|please", clause, re.IGNORECASE):
        return bool(
            re.search(
                r"规定|政策|流程|条件|\b(?:policy|rules?)\b|状态|记录|查|tell me|show me|list", clause, re.IGNORECASE
            )
        )
    return bool(_ASKS_ABOUT.search(clause))


def _spoken(text: str) -> list[str]:
    """Clauses that claim no consent: what is left is what the person wants."""
    return [clause for clause in clauses(text) if not CONSENT.search(clause)]


def claims_consent(text: str) -> bool:
    return any(CONSENT.search(clause) for clause in clauses(text))
